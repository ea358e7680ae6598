#include "predict/strand/pair_offer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "predict/strand/plan_strands.h"

namespace tombolo::strand {
namespace {

using ::testing::HasSubstr;

plan::Job job_of(int64_t tensor, BytesPerSecond link) {
  plan::Job job;
  job.file = "job.toml";
  job.model = *model::preset("llama3-70b");
  cluster::Datacenter site;
  site.name = "site";
  site.device = *cluster::catalog_device("a40-48g");
  site.nodes = 8;
  site.devices_per_node = 8;
  site.scale_up.bandwidth = link;
  job.cluster.datacenters = {site};
  job.parallelism.tensor = tensor;
  job.parallelism.data = 64 / tensor;
  job.parallelism.sequence_parallel = tensor > 1;
  job.training.global_batch = 512;
  job.training.stack = "megatron";
  return job;
}

TEST(PairOffer, IsThePlanOfALayer) {
  const plan::Job job = job_of(8, 32_GBps);
  const PairOffer offer = *offer_pairs(job);
  const StrandAnswer answer = *plan_strands(job, {});
  ASSERT_TRUE(offer.layer) << offer.why_not;
  EXPECT_EQ(offer.layer->together.value, answer.paired);
  EXPECT_EQ(offer.layer->apart.value, answer.by_stack);
  EXPECT_EQ(offer.gain.expected, answer.gain.expected);
  // One side ends with the pair, the other no later.
  EXPECT_NEAR(std::max(offer.layer->forward_end, offer.layer->backward_end).value, answer.paired,
              1e-12);
}

// It runs alone, before the pair.
TEST(PairOffer, LeavesRecomputationOut) {
  plan::Job job = job_of(8, 32_GBps);
  const PairOffer kept = *offer_pairs(job);
  job.training.recompute = model::Recompute::kFull;
  EXPECT_EQ(*offer_pairs(job)->layer, *kept.layer);
}

TEST(PairOffer, SaysWhyNot) {
  EXPECT_THAT(offer_pairs(job_of(1, 32_GBps))->why_not, HasSubstr("nothing to hide"));
  plan::Job single = job_of(8, 32_GBps);
  single.training.global_batch = 8;
  EXPECT_THAT(offer_pairs(single)->why_not, HasSubstr("one microbatch per pipeline"));
  plan::Job wide = job_of(1, 32_GBps);
  wide.parallelism.context = 64;
  EXPECT_THAT(offer_pairs(wide)->why_not, HasSubstr("context = 64: a pass through a layer has"));
  plan::Job unlike = job_of(8, 32_GBps);
  unlike.cluster.datacenters.push_back(unlike.cluster.datacenters.front());
  unlike.cluster.datacenters.back().name = "faster";
  unlike.cluster.datacenters.back().scale_up.bandwidth = 300_GBps;
  EXPECT_THAT(offer_pairs(unlike)->why_not, HasSubstr("layers in site and faster"));
}

}  // namespace
}  // namespace tombolo::strand
