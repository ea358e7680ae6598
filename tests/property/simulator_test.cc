// What must hold of every simulation, on random Plans. A failure prints the seed of its case.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "base/json.h"
#include "base/random.h"
#include "predict/cost/price_plan.h"
#include "predict/sim/interpret.h"
#include "predict/sim/simulate.h"
#include "spec/graph/graph.h"
#include "spec/plan/plan_file.h"
#include "spec/schedule/schedule.h"
#include "spec/trace/trace_file.h"
#include "support/toy_plan.h"

namespace tombolo {
namespace {

using testing::Toy;
using testing::toy_plan;

Toy random_pipeline(Random& random) {
  Toy toy;
  toy.schedule = random.below(2) == 0 ? "gpipe" : "1f1b";
  toy.stages.clear();
  int64_t stages = 0;
  for (uint64_t i = 0; i <= random.below(3); ++i) {
    toy.stages.push_back(1 + static_cast<int64_t>(random.below(3)));
    stages += toy.stages.back();
  }
  toy.microbatches = 1 + static_cast<int64_t>(random.below(8));
  const auto times = [&](uint64_t max) {
    std::vector<Seconds> out;
    for (int64_t s = 0; s < stages; ++s)
      out.push_back(static_cast<double>(random.below(max)) * 1_us);
    return out;
  };
  toy.forward = times(5000);
  toy.backward = times(9000);
  if (random.below(2) == 0) toy.recompute = times(5000);
  toy.boundary_bytes = 2 * (1 + static_cast<int64_t>(random.below(500'000)));
  toy.one_way_latency = static_cast<double>(random.below(40'000)) * 1_us;
  toy.node_pair_limit = static_cast<double>(50 + random.below(5000)) * 1_Mbps;
  if (random.below(2) == 0) toy.path_limit = static_cast<double>(50 + random.below(5000)) * 1_Mbps;
  if (random.below(2) == 0) toy.tcp_window = 64_KiB;
  toy.connections = 1 + static_cast<int64_t>(random.below(16));
  return toy;
}

TEST(Simulator, IsNeverFasterThanItsBusiestPart) {
  for (uint64_t seed = 1; seed <= 150; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    Random random(seed);
    const plan::Plan plan = toy_plan(random_pipeline(random));
    const sim::Simulation simulation = *sim::simulate(plan);
    const auto m = static_cast<double>(plan.microbatches());
    for (const plan::Stage& stage : plan.stages) {
      const Seconds busy = m * (stage.cost.forward + stage.cost.backward + stage.cost.recompute);
      EXPECT_GE(simulation.iteration.ns + 1, round_to_ns(busy).ns);
    }
    for (int32_t r = 0; r + 1 < static_cast<int32_t>(plan.ranks.size()); ++r) {
      const plan::Channel channel = plan::channel_between(plan, r, r + 1);
      const Seconds carried = m * channel.serialisation(plan.boundary) + channel.latency;
      EXPECT_GE(simulation.iteration.ns + 1, round_to_ns(carried).ns);
    }
  }
}

// Pipelines that meet nowhere but in the sum take as long as one of them, and the sum. Its stages
// all take equally long for it, so the stage that is last to be through is last to have summed.
TEST(Simulator, ReplicasApartTakeAsLongAsOne) {
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    Random random(seed);
    Toy toy = random_pipeline(random);
    toy.path_limit.reset();
    const int64_t alone = sim::simulate(toy_plan(toy))->iteration.ns;
    const auto reduce = static_cast<int64_t>(random.below(3000));
    toy.reduce = static_cast<double>(reduce) * 1_us;
    for (toy.replicas = 2; toy.replicas <= 4; ++toy.replicas) {
      EXPECT_EQ(sim::simulate(toy_plan(toy))->iteration.ns, alone + 1000 * reduce);
    }
  }
}

// On a path that all share, another pipeline with as much work of its own makes nobody faster. Ends
// of flows are rounded up to nanoseconds: one each for the messages that follow one another.
TEST(Simulator, MoreReplicasOnAPathAreNeverFaster) {
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    Random random(seed);
    Toy toy = random_pipeline(random);
    toy.path_limit = static_cast<double>(50 + random.below(5000)) * 1_Mbps;
    int64_t before = 0;
    for (toy.replicas = 1; toy.replicas <= 4; ++toy.replicas) {
      const int64_t now = sim::simulate(toy_plan(toy))->iteration.ns;
      EXPECT_GE(now + 100, before) << toy.replicas << " replicas";
      before = now;
    }
  }
}

// Every message once, with all its bytes; every computation once; nothing overlaps on a device.
TEST(Simulator, ConservesWork) {
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    Random random(seed);
    const plan::Plan plan = toy_plan(random_pipeline(random));
    const sim::Simulation simulation = *sim::simulate(plan, {.iterations = 2});
    std::map<int32_t, SimTime> free_at;
    int64_t bytes = 0;
    for (const trace::Interval& interval : simulation.trace.intervals) {
      bytes += interval.bytes;
      if (interval.lane != trace::Lane::kCompute) continue;
      EXPECT_GE(interval.start, free_at[interval.rank]);
      free_at[interval.rank] = interval.end;
    }
    const auto boundaries = static_cast<int64_t>(plan.stages.size()) - 1;
    EXPECT_EQ(bytes,
              2 * boundaries * 2 * plan.microbatches() * static_cast<int64_t>(plan.boundary.value));
    for (const trace::RankParts& row : simulation.breakdown.rows) {
      EXPECT_GE(row.parts.idle.ns, 0);
    }
  }
}

TEST(Simulator, ScalesWithTime) {
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    Random random(seed);
    Toy toy = random_pipeline(random);
    toy.transfer = static_cast<double>(random.below(3000)) * 1_us;
    const int64_t once = sim::simulate(toy_plan(toy))->iteration.ns;
    constexpr int kTimes = 7;
    for (auto* list : {&toy.forward, &toy.backward, &toy.recompute}) {
      for (Seconds& time : *list) time = kTimes * time;
    }
    toy.transfer = kTimes * *toy.transfer;
    EXPECT_EQ(sim::simulate(toy_plan(toy))->iteration.ns, kTimes * once);
  }
}

// Other names, in another alphabetical order, change nothing but the names.
TEST(Simulator, DoesNotCareWhatDatacentersAreCalled) {
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    Random random(seed);
    const Toy toy = random_pipeline(random);
    plan::Job job = testing::toy_job(toy);
    const auto renamed = [](const std::string& name) {
      return std::string(1, 'z' - name[2] + '0');
    };
    for (cluster::Datacenter& datacenter : job.cluster.datacenters) {
      datacenter.name = renamed(datacenter.name);
    }
    for (cluster::WanLink& link : job.cluster.wan) {
      for (std::string& end : link.between) end = renamed(end);
    }
    const sim::Simulation one = *sim::simulate(toy_plan(toy));
    const sim::Simulation other = *sim::simulate(*cost::make_plan(job));
    EXPECT_EQ(one.trace.intervals, other.trace.intervals);
    EXPECT_EQ(one.fingerprint, other.fingerprint);
  }
}

TEST(Simulator, GivesTheSameBytesTwice) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    const auto everything = [seed] {
      Random random(seed);
      const plan::Plan plan = toy_plan(random_pipeline(random));
      const sim::Simulation simulation = *sim::simulate(plan, {.iterations = 3});
      const schedule::Schedule schedule = *schedule::build(plan);
      return std::vector<std::string>{
          plan::to_json_text(plan), graph::to_json_text(schedule::to_graph(plan, schedule)),
          trace::to_json_lines(simulation.trace), simulation.fingerprint};
    };
    EXPECT_EQ(everything(), everything());
  }
}

// A Plan that went through its file predicts the same: nothing is lost in the text.
TEST(Simulator, PredictsTheSameFromAPlanFile) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    Random random(seed);
    const plan::Plan plan = toy_plan(random_pipeline(random));
    const plan::Plan again = *plan::parse_plan(plan::to_json_text(plan), "plan.json");
    EXPECT_EQ(trace::to_json_lines(sim::simulate(plan)->trace),
              trace::to_json_lines(sim::simulate(again)->trace));
  }
}

// Without overlap between iterations each takes as long as the first: 1F1B ends on rank 0.
TEST(Simulator, RepeatsIterations) {
  const plan::Plan plan = toy_plan({.stages = {3}, .microbatches = 4});
  const sim::Simulation simulation = *sim::simulate(plan, {.iterations = 4});
  const std::vector<trace::IterationTime> times = trace::iteration_times(simulation.trace);
  ASSERT_EQ(times.size(), 4u);
  for (size_t i = 0; i < times.size(); ++i) {
    EXPECT_EQ(times[i].iteration, static_cast<int64_t>(i) + 1);
    EXPECT_EQ(times[i].start.ns, static_cast<int64_t>(i) * 18'000'000);  // (4 + 3 - 1) x 3 ms
    EXPECT_EQ((times[i].end - times[i].start).ns, 18'000'000);
  }
}

TEST(Simulator, RefusesNumbersThatCannotBe) {
  const plan::Plan good = toy_plan({});
  const auto message = [](const plan::Plan& plan) {
    const auto result = sim::simulate(plan);
    return result ? "accepted" : result.error().text();
  };
  plan::Plan plan = good;
  plan.stages[1].cost.forward = -1_ms;
  EXPECT_THAT(message(plan), ::testing::HasSubstr("forward of stage 1 takes -1 ms"));
  plan = good;
  plan.stages[0].cost.update = Seconds{1e12};
  EXPECT_THAT(message(plan), ::testing::HasSubstr("over 290 years"));
  plan = toy_plan({.boundary_bytes = 1'000'000});
  plan.boundary = -1_B;
  EXPECT_THAT(message(plan), ::testing::HasSubstr("cannot be sent"));
  plan = good;
  plan.training.global_batch = 100'000'000;
  EXPECT_THAT(message(plan), ::testing::HasSubstr("too many to schedule"));
  EXPECT_FALSE(sim::simulate(good, {.iterations = 0}));
}

}  // namespace
}  // namespace tombolo
