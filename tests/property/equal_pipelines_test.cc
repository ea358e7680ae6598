// One pipeline of each kind takes as long as all of them, to the nanosecond.
#include "predict/sim/equal_pipelines.h"

#include <gtest/gtest.h>

#include "base/random.h"
#include "predict/cost/price_plan.h"
#include "predict/sim/simulate.h"
#include "spec/plan/job.h"
#include "support/seeds.h"

namespace tombolo {
namespace {

// Pipelines in nodes of a width that cuts some of them where it does not cut others.
std::string random_cluster_job(Random& random) {
  const int tensor = 1 << random.below(2);
  const int pipeline = 1 << random.below(3);
  const auto data = static_cast<int>(2 + random.below(5));
  const int width = tensor * static_cast<int>(1 + random.below(4));
  const bool across = random.below(4) == 0;
  const bool unequal = random.below(3) == 0;
  std::string batches;
  int64_t batch = 0;
  for (int replica = 0; replica < data; ++replica) {
    const int64_t own = unequal ? 4 + static_cast<int64_t>(random.below(2)) * 2 : 8;
    batches += fmt::format("{}{}", replica == 0 ? "" : ", ", own);
    batch += own;
  }
  const bool zb = pipeline > 1 && random.below(3) == 0;
  std::string job = fmt::format(
      "[model]\nlayers = 8\nhidden = 1024\nheads = 8\nvocabulary = 1000\nsequence = 256\n"
      "[training]\nmicro_batch = 1\nglobal_batch = {}\n"
      "[parallelism]\ntensor = {}\npipeline = {}\ndata = {}\nmicrobatches_per_replica = [{}]\n"
      "schedule = \"{}\"\nzero = {}\n",
      batch, tensor, pipeline, data, batches, zb ? "zb-h1" : "1f1b", zb ? 0 : random.below(2));
  const int64_t devices = static_cast<int64_t>(tensor) * pipeline * data;
  for (int d = 0; d < (across ? 2 : 1); ++d) {
    job += fmt::format(
        "[[cluster.datacenter]]\nname = \"{}\"\ndevice = \"a100-80g\"\nnodes = {}\n"
        "devices_per_node = {}\n",
        d == 0 ? "a" : "b", devices, width);
  }
  if (!across) return job;
  return job +
         "[[cluster.wan]]\nbetween = [\"a\", \"b\"]\none_way_latency = \"3 ms\"\n"
         "node_pair_limit = \"1 Gbps\"\npath_limit = \"2 Gbps\"\n";
}

TEST(EqualPipelines, OneOfEachKindTakesAsLongAsAll) {
  int left_out = 0, several = 0;
  for (uint64_t seed = 1; seed <= seeds(60, 2000); ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    Random random(seed);
    const std::string text = random_cluster_job(random);
    SCOPED_TRACE(text);
    const Result<plan::Job> job = plan::parse_job(text, "job.toml");
    ASSERT_TRUE(job) << job.error().text();
    const Result<plan::Plan> plan = cost::make_plan(*job);
    ASSERT_TRUE(plan) << plan.error().text();
    const Result<sim::Simulation> all = sim::simulate(*plan);
    ASSERT_TRUE(all) << all.error().text();
    EXPECT_EQ(*sim::iteration_time(*plan), all->iteration);
    const std::vector<int32_t> kinds = sim::one_of_each_kind(*plan).replicas;
    EXPECT_EQ(kinds.front(), 0);
    left_out += std::ssize(kinds) < plan->replicas();
    several += std::ssize(kinds) > 1 && std::ssize(kinds) < plan->replicas();
  }
  EXPECT_GT(left_out, 20);
  EXPECT_GT(several, 3);
}

}  // namespace
}  // namespace tombolo
