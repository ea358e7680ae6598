#include "decide/across/tuned_exchange.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "decide/across/line_rates.h"

namespace tombolo::across {
namespace {

using ::testing::HasSubstr;

std::string two_labs(const std::string& more = "") {
  return R"(name = "two labs"
[model]
layers = 4
hidden = 512
heads = 8
vocabulary = 8000
sequence = 256
[[cluster.datacenter]]
name = "lab"
device = "emulated:a100-80g"
[[cluster.datacenter]]
name = "cloud"
device = "emulated:a100-80g"
[[cluster.wan]]
between = ["lab", "cloud"]
one_way_latency = "20 ms"
node_pair_limit = "100 Mbps"
[training]
global_batch = 8
micro_batch = 2
precision = "fp32"
[optimizer]
beta1 = 0
[parallelism]
pipeline = 1
data = 2
datacenter_per_replica = ["lab", "cloud"]
[stage_times]
forward = "20 ms"
backward = "40 ms"
)" + more;
}

plan::Job job_of(const std::string& text) { return plan::parse_job(text, "job.toml").value(); }

plan::Job with_line(plan::Job job, BytesPerSecond rate) {
  set_slowest_line(job.cluster, rate);
  return job;
}

// A law of its own: what is left out costs a power of it, and batches cost most at both ends.
double law(double density, double batch) {
  const double away = std::log2(batch / 12);
  return std::pow(density, -0.25) * (1 + 0.06 * away * away);
}

tune::ConvergenceProfile profile_of(const tune::ProbeBounds& bounds) {
  tune::ProbeRecord record{.bounds = bounds};
  for (int64_t i = 0; i <= 6; ++i) {
    for (int64_t j = 0; j <= 5; ++j) {
      const double density = std::pow(bounds.density_min, real(i) / 6);
      const int64_t batch = bounds.batch((bounds.batches() - 1) * j / 5);
      record.probes.push_back({density, batch, law(density, real(batch))});
    }
  }
  return *tune::ConvergenceProfile::of(record);
}

// 50 Mbps and 1 Gbps, a path of 2 Gbps: four times as much each.
TEST(LineRates, GrowInProportion) {
  cluster::Cluster cluster = job_of(two_labs()).cluster;
  cluster.wan.push_back(cluster.wan[0]);
  cluster.wan[0].node_pair_limit = 1_Gbps;
  cluster.wan[0].path_limit = 2_Gbps;
  cluster.wan[1].node_pair_limit = 50_Mbps;
  EXPECT_EQ(slowest_line(cluster), 50_Mbps);
  set_slowest_line(cluster, 200_Mbps);
  EXPECT_EQ(cluster.wan[0].node_pair_limit, 4_Gbps);
  EXPECT_EQ(cluster.wan[0].path_limit, 8_Gbps);
  EXPECT_EQ(cluster.wan[1].node_pair_limit, 200_Mbps);
  EXPECT_FALSE(cluster.wan[1].path_limit);
}

TEST(TuningBounds, AreBatchesThatDivide) {
  const plan::Job job = job_of(two_labs());
  const auto bounds = tuning_bounds(job, 50, 0.002);
  ASSERT_TRUE(bounds) << bounds.error().text();
  EXPECT_EQ(bounds->batch_min, 4);
  EXPECT_EQ(bounds->batch_max, 48);
  EXPECT_EQ(bounds->batch_step, 4);
  plan::Job by_speed = job;
  by_speed.parallelism.microbatches_by_speed = true;
  EXPECT_EQ(tuning_bounds(by_speed, 50, 0.002)->batch_step, 2);
  EXPECT_EQ(tuning_bounds(by_speed, 51, 0.002)->batch_max, 50);
}

TEST(TuningBounds, RefuseWhatHasNothingToTune) {
  const auto why = [](const plan::Job& job, int64_t most = 64) {
    const auto bounds = tuning_bounds(job, most, 0.002);
    return bounds ? std::string("bounds") : bounds.error().text();
  };
  EXPECT_THAT(why(job_of(two_labs("[exchange]\nmode = \"local\"\n"))),
              HasSubstr("mode = \"local\""));
  EXPECT_THAT(why(job_of(two_labs()), 3), HasSubstr("the largest batch, 3"));
  plan::Job given = job_of(two_labs());
  given.parallelism.microbatches_per_replica = {3, 1};
  EXPECT_THAT(why(given), HasSubstr("microbatches_per_replica"));
  std::string at_home = two_labs();
  at_home.replace(at_home.find("data = 2"), 8, "data = 1");
  at_home.replace(at_home.find("datacenter_per_replica = [\"lab\", \"cloud\"]"), 42, "");
  EXPECT_THAT(why(job_of(at_home)), HasSubstr("replicas"));
}

// Of every batch and of densities 5 % apart none is better by more than half a percent, on lines from
// slow to fast.
TEST(TunedExchange, NoSettingIsBetter) {
  const plan::Job job = job_of(two_labs());
  const tune::ProbeBounds bounds = *tuning_bounds(job, 64, 0.002);
  const tune::ConvergenceProfile profile = profile_of(bounds);
  for (const BytesPerSecond rate : {5_Mbps, 50_Mbps, 500_Mbps}) {
    const plan::Job here = with_line(job, rate);
    const auto tuned = tuned_exchange(here, profile, {.threads = 1});
    ASSERT_TRUE(tuned) << tuned.error().text();
    const auto again = priced(with_setting(here, tuned->density, tuned->batch), profile);
    ASSERT_TRUE(again);
    EXPECT_EQ(again->per_sample().value, tuned->per_sample().value);
    double best = kInfinity;
    for (int64_t i = 0; i < bounds.batches(); ++i) {
      for (double density = bounds.density_min; density <= 1; density *= 1.05) {
        const auto one = priced(with_setting(here, density, bounds.batch(i)), profile);
        ASSERT_TRUE(one) << one.error().text();
        best = std::min(best, one->per_sample().value);
      }
    }
    EXPECT_LE(tuned->per_sample().value, best * 1.005)
        << brief(rate) << ": density " << tuned->density << ", batch " << tuned->batch;
  }
}

TEST(TunedExchange, ASlowerLineLeavesOutMore) {
  const plan::Job job = job_of(two_labs());
  const tune::ConvergenceProfile profile = profile_of(*tuning_bounds(job, 96, 0.002));
  double before = 0;
  for (const BytesPerSecond rate : {5_Mbps, 50_Mbps, 500_Mbps, 50_Gbps}) {
    const auto tuned = tuned_exchange(with_line(job, rate), profile);
    ASSERT_TRUE(tuned) << tuned.error().text();
    EXPECT_GE(tuned->density, before) << brief(rate);
    before = tuned->density;
  }
  EXPECT_EQ(before, 1);
}

// Twice the microbatches in the same job, by hand: with an exchange that hides, 60 ms each.
TEST(TunedExchange, PricesASettingAsItIsSimulated) {
  const plan::Job job = with_line(job_of(two_labs()), 10_Gbps);
  const tune::ConvergenceProfile profile = profile_of(*tuning_bounds(job, 96, 0.002));
  for (const int64_t batch : {8, 16}) {
    const auto one = priced(with_setting(job, 0.01, batch), profile);
    ASSERT_TRUE(one) << one.error().text();
    EXPECT_NEAR(one->iteration.value, 0.060 * static_cast<double>(batch) / 4, 0.0005);
    EXPECT_NEAR(one->samples_factor, profile.samples_factor(0.01, static_cast<double>(batch)),
                1e-12);
    EXPECT_NEAR(one->per_sample().value,
                one->iteration.value * one->samples_factor / static_cast<double>(batch), 1e-15);
  }
}

}  // namespace
}  // namespace tombolo::across
