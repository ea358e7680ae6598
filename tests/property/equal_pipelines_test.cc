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
  // Folded ones hold two stages a rank.
  constexpr const char* kSchedules[] = {"1f1b", "gpipe", "varuna", "zb-h1", "interleaved",
                                        "zb-v", "w",     "atlas",  "1f1b"};
  const std::string schedule = pipeline == 1 ? "1f1b" : kSchedules[random.below(9)];
  const auto kind = *layout::find_schedule(schedule);
  const bool line = layout::mapping_of(kind) == layout::StageMapping::kLine;
  const bool zb = layout::traits_of(kind).has(layout::kHalves);
  // Of a cell that shares the WAN in time all do the same, and nothing may say otherwise.
  const bool shares = schedule == "atlas";
  const bool unequal = !shares && random.below(3) == 0;
  std::string batches;
  int64_t batch = 0;
  for (int replica = 0; replica < data; ++replica) {
    const int64_t own = unequal ? 4 + static_cast<int64_t>(random.below(2)) * 2 : 8;
    batches += fmt::format("{}{}", replica == 0 ? "microbatches_per_replica = [" : ", ", own);
    batch += own;
  }
  batches += "]\n";
  if (shares) batches.clear();
  std::string job = fmt::format(
      "[model]\nlayers = 8\nhidden = 1024\nheads = 8\nvocabulary = 1000\nsequence = 256\n"
      "[training]\nmicro_batch = 1\nglobal_batch = {}\n"
      "[parallelism]\ntensor = {}\npipeline = {}\ndata = {}\n{}"
      "schedule = \"{}\"\nvirtual_stages = {}\nzero = {}\n",
      batch, tensor, pipeline, data, batches, schedule, line ? 1 : 2, zb ? 0 : random.below(2));
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

// The Trace of all pipelines, played or drawn; the order of events alone tells them apart.
void expect_equal(const sim::Simulation& drawn, const sim::Simulation& played) {
  EXPECT_EQ(drawn.trace.intervals, played.trace.intervals);
  EXPECT_EQ(drawn.trace.header.ranks, played.trace.header.ranks);
  ASSERT_EQ(drawn.breakdown.rows.size(), played.breakdown.rows.size());
}

// Of one of each kind what is said of all ranks.
void expect_same_figures(const sim::Simulation& once, const sim::Simulation& played) {
  EXPECT_EQ(once.iteration, played.iteration);
  EXPECT_EQ(once.iterations, played.iterations);
  EXPECT_EQ(once.breakdown.sum, played.breakdown.sum);
  EXPECT_EQ(once.breakdown.exposed_exchange, played.breakdown.exposed_exchange);
  EXPECT_EQ(once.breakdown.utilization, played.breakdown.utilization);
  EXPECT_EQ(once.breakdown.wan.size(), played.breakdown.wan.size());
  EXPECT_EQ(once.peak_memory, played.peak_memory);
  int64_t ranks = 0;
  for (const trace::RankLabel& label : once.trace.header.ranks) ranks += label.stands_for;
  EXPECT_EQ(ranks, std::ssize(played.trace.header.ranks));
}

TEST(EqualPipelines, OneOfEachKindTellsWhatAllDo) {
  int left_out = 0, several = 0;
  for (uint64_t seed = 1; seed <= seeds(90, 3000); ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    Random random(seed);
    const std::string text = random_cluster_job(random);
    SCOPED_TRACE(text);
    const Result<plan::Job> job = plan::parse_job(text, "job.toml");
    ASSERT_TRUE(job) << job.error().text();
    const Result<plan::Plan> plan = cost::make_plan(*job);
    ASSERT_TRUE(plan) << plan.error().text();
    const auto iterations = static_cast<int64_t>(1 + random.below(3));
    const auto simulated = [&](sim::Alike alike) {
      return sim::simulate(*plan, {.iterations = iterations, .alike = alike});
    };
    const Result<sim::Simulation> played = simulated(sim::Alike::kPlayed);
    ASSERT_TRUE(played) << played.error().text();
    const sim::Simulation drawn = *simulated(sim::Alike::kDrawn);
    const sim::Simulation once = *simulated(sim::Alike::kOnce);
    expect_equal(drawn, *played);
    expect_same_figures(drawn, *played);
    expect_same_figures(once, *played);
    EXPECT_EQ(drawn.fingerprint, once.fingerprint);
    EXPECT_EQ(*sim::iteration_time(*plan), sim::simulate(*plan)->iteration);
    const std::vector<int32_t> kinds = sim::one_of_each_kind(*plan).replicas;
    EXPECT_EQ(kinds.front(), 0);
    left_out += std::ssize(kinds) < plan->replicas();
    several += std::ssize(kinds) > 1 && std::ssize(kinds) < plan->replicas();
  }
  EXPECT_GT(left_out, 40);
  EXPECT_GT(several, 5);
}

}  // namespace
}  // namespace tombolo
