#include "predict/sim/trace_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "predict/sim/simulate.h"
#include "spec/plan/job.h"
#include "spec/schedule/schedule.h"

namespace tombolo::sim {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Two stages on one pair of nodes with two pipelines; 25 MB pass 1 Gbps in 200 ms.
plan::Plan two_pipelines(const std::string& schedule = "1f1b") {
  const std::string text = R"(
    [model]
    layers = 4
    hidden = 1024
    heads = 8
    vocabulary = 256
    sequence = 1024
    [[cluster.datacenter]]
    name = "a"
    device = "h100-80g"
    devices_per_node = 2
    [[cluster.datacenter]]
    name = "b"
    device = "h100-80g"
    devices_per_node = 2
    [[cluster.wan]]
    between = ["a", "b"]
    one_way_latency = "10 ms"
    node_pair_limit = "1 Gbps"
    [training]
    global_batch = 8
    [parallelism]
    pipeline = 2
    data = 2
    schedule = ")" + schedule +
                           "\"\n";
  plan::Plan plan = *plan::lay_out(*plan::parse_job(text, "job.toml"));
  plan.boundary = 25_MB;
  for (plan::Stage& stage : plan.stages) {
    stage.cost = {.forward = 100_ms, .backward = 200_ms, .update = 5_ms, .reduce = 50_ms};
    stage.state = 10_GB;
    stage.activations = 1_GB;
    stage.gradients = 100_MB;
  }
  return plan;
}

std::vector<std::string> found(const plan::Plan& plan, const trace::Trace& trace) {
  const Result<Check> check = check_trace(plan, trace);
  CHECK(check, "{}", check.error().text());
  std::vector<std::string> out;
  for (const Violation& v : check->violations) {
    out.push_back(fmt::format("{}: {}", to_name(v.kind), v.text));
  }
  return out;
}

trace::Interval& find(trace::Trace& trace, const std::string& action, int32_t rank) {
  const auto at = std::find_if(trace.intervals.begin(), trace.intervals.end(), [&](const auto& i) {
    return action::to_text(i.action) == action && i.rank == rank;
  });
  CHECK(at != trace.intervals.end(), "no {} on rank {}", action, rank);
  return *at;
}

TEST(CheckTrace, PredictionsHold) {
  for (const char* schedule : {"1f1b", "gpipe", "varuna", "atlas", "zb-h1"}) {
    const plan::Plan plan = two_pipelines(schedule);
    const Simulation simulation = *simulate(plan, {.iterations = 2});
    EXPECT_THAT(found(plan, simulation.trace), IsEmpty()) << schedule;
    const Check check = *check_trace(plan, simulation.trace);
    EXPECT_EQ(check.peak_memory, simulation.peak_memory) << schedule;
    // 2 iterations x 2 pipelines x 4 microbatches of 25 MB in each direction.
    const auto pair =
        std::find_if(check.resources.begin(), check.resources.end(),
                     [](const auto& use) { return use.name == "a node 0 -> b node 0"; });
    ASSERT_NE(pair, check.resources.end());
    EXPECT_DOUBLE_EQ(pair->carried.value, 16 * 25e6);
    EXPECT_LE(pair->used_share, 1);
  }
}

// Both pipelines sending at once at the pair's whole rate: twice what it carries.
TEST(CheckTrace, FindsTooMuchOnAResource) {
  const plan::Plan plan = two_pipelines();
  trace::Trace trace = simulate(plan)->trace;
  for (trace::Interval& interval : trace.intervals) {
    if (interval.lane != trace::Lane::kLink) continue;
    interval.end = interval.start + SimDuration{210'000'000};  // alone: 200 ms, and 10 of latency
  }
  EXPECT_THAT(found(plan, trace),
              ::testing::Contains(HasSubstr("capacity: a node 0 -> b node 0 carries 200.0 %")));
}

TEST(CheckTrace, FindsTooLittleMemory) {
  plan::Plan plan = two_pipelines();
  const trace::Trace trace = simulate(plan)->trace;
  plan.stages[0].activations = 40_GB;
  EXPECT_THAT(found(plan, trace), ::testing::Contains(HasSubstr("memory: rank 0 keeps 90 GB")));
}

TEST(CheckTrace, FindsAnEffectBeforeItsCause) {
  const plan::Plan plan = two_pipelines();
  trace::Trace trace = simulate(plan)->trace;
  trace::Interval& early = find(trace, "1F0", 2);
  early.end = early.end - SimDuration{1'000'000};
  early.start = early.start - SimDuration{1'000'000};
  EXPECT_THAT(found(plan, trace), ::testing::Contains(HasSubstr("causality: 1F0 of rank 2")));
}

TEST(CheckTrace, FindsTwoThingsAtOnceAndAnotherOrder) {
  const plan::Plan plan = two_pipelines();
  trace::Trace trace = simulate(plan)->trace;
  trace::Interval& second = find(trace, "0F1", 0);
  const SimTime first = find(trace, "0F0", 0).start;
  second.end = first + (second.end - second.start);
  second.start = first;
  EXPECT_THAT(found(plan, trace),
              ::testing::Contains(HasSubstr("order: 0F1 of rank 0 in iteration 1 begins before")));
}

TEST(CheckTrace, FindsWhatIsMissingOrTooShort) {
  const plan::Plan plan = two_pipelines();
  trace::Trace trace = simulate(plan)->trace;
  trace::Interval& brief = find(trace, "1B3", 3);
  brief.end = brief.end - SimDuration{5};
  EXPECT_THAT(found(plan, trace), ::testing::Contains(HasSubstr("takes 199999995 ns")));
  trace = simulate(plan)->trace;
  std::erase_if(trace.intervals, [](const trace::Interval& i) {
    return action::to_text(i.action) == "0U" && i.rank == 1;
  });
  EXPECT_THAT(found(plan, trace),
              ::testing::Contains(HasSubstr("0U of rank 1 in iteration 1 is missing")));
  trace = simulate(plan)->trace;
  trace.intervals.push_back(trace.intervals.front());
  EXPECT_THAT(found(plan, trace), ::testing::Contains(HasSubstr("1 intervals are in no schedule")));
}

TEST(CheckTrace, FindsOtherBytes) {
  const plan::Plan plan = two_pipelines();
  trace::Trace trace = simulate(plan)->trace;
  find(trace, "0SEND_F2", 1).bytes /= 2;
  find(trace, "0REDUCE_GRAD", 0).bytes = 7;
  EXPECT_THAT(found(plan, trace),
              ::testing::UnorderedElementsAre(
                  HasSubstr("bytes: 0SEND_F2 of rank 1 in iteration 1 carries 12500000 bytes"),
                  HasSubstr("bytes: 0REDUCE_GRAD of rank 0")));
}

// Both replicas of a stage are on one node: of 100 MB each passes 2 x 1/2 x 100 MB over its port in
// 100 ms, half of that beside the last backward.
TEST(CheckTrace, SumsBeginBesideTheLastBackwardAndLoadThePorts) {
  plan::Plan plan = two_pipelines();
  for (plan::Stage& stage : plan.stages) stage.cost.reduce_hidden = 50_ms;
  plan.cost_source = plan::CostSource::kTombolo;
  trace::Trace trace = simulate(plan)->trace;
  EXPECT_THAT(found(plan, trace), IsEmpty());
  for (const int32_t rank : {0, 1}) {
    const SimTime last = find(trace, "0B3", rank).end;
    EXPECT_EQ(find(trace, "0REDUCE_GRAD", rank).start, last - SimDuration{50'000'000});
    EXPECT_EQ(find(trace, "0REDUCE_GRAD", rank).end, last + SimDuration{50'000'000});
    EXPECT_EQ(find(trace, "0U", rank).start, last + SimDuration{50'000'000});
  }
  const Check check = *check_trace(plan, trace);
  const auto port =
      std::find_if(check.resources.begin(), check.resources.end(),
                   [](const auto& use) { return use.name == "rank 0, scale-up out"; });
  ASSERT_NE(port, check.resources.end());
  EXPECT_DOUBLE_EQ(port->carried.value, 100e6);
  // Through a port of 0.5 GB/s it takes 200 ms instead: 100 ms more than planned.
  plan.cluster.datacenters[0].scale_up.bandwidth = 0.5_GBps;
  const SimTime before = find(trace, "0REDUCE_GRAD", 0).end;
  EXPECT_THAT(found(plan, trace), ::testing::Contains(HasSubstr("capacity: rank 0, scale-up out")));
  trace = simulate(plan)->trace;
  EXPECT_THAT(found(plan, trace), IsEmpty());
  EXPECT_EQ(find(trace, "0REDUCE_GRAD", 0).end, before + SimDuration{100'000'000});
}

// Each replica on a node of its own: 25 MB of gradients leave by the card that sends the last
// message, 25 MB, to the other datacenter. Alone, 400 ms and 200 ms; together each has half of 1
// Gbps, and both take 400 ms.
TEST(CheckTrace, SumsAndMessagesShareACard) {
  plan::Plan plan = two_pipelines();
  plan.cost_source = plan::CostSource::kTombolo;
  for (cluster::Datacenter& datacenter : plan.cluster.datacenters) {
    datacenter.nodes = 2;
    datacenter.devices_per_node = 1;
    datacenter.scale_out.bandwidth = 1_Gbps;
  }
  for (layout::Placement& rank : plan.ranks) {
    rank.node = rank.replica;
    rank.device = 0;
  }
  for (plan::Stage& stage : plan.stages) {
    stage.gradients = 25_MB;
    stage.cost.reduce = 400_ms;
  }
  trace::Trace trace = simulate(plan)->trace;
  EXPECT_THAT(found(plan, trace), IsEmpty());
  const auto took = [&](const std::string& action, int32_t rank) {
    const trace::Interval& interval = find(trace, action, rank);
    return (interval.end - interval.start).ns;
  };
  EXPECT_EQ(took("1SEND_B2", 2), 210'000'000);
  EXPECT_NEAR(static_cast<double>(took("1SEND_B3", 2)), 410e6, 10);
  EXPECT_EQ(took("1REDUCE_GRAD", 2), 400'000'000);
}

// 100 ms of forward, 30 of them for tensors and 10 for contexts.
TEST(CheckTrace, WhatAPassCommunicatesStandsBehindItsComputation) {
  plan::Plan plan = two_pipelines();
  for (plan::Stage& stage : plan.stages) {
    stage.cost.forward_communication = {.tensor = 30_ms, .context = 10_ms};
    stage.cost.backward_communication = {.data = 200_ms};  // nothing but that
  }
  trace::Trace trace = simulate(plan)->trace;
  EXPECT_THAT(found(plan, trace), IsEmpty());
  EXPECT_EQ((find(trace, "0F0", 0).end - find(trace, "0F0", 0).start).ns, 60'000'000);
  EXPECT_EQ(find(trace, "0TP0", 0).start, find(trace, "0F0", 0).end);
  EXPECT_EQ((find(trace, "0TP0", 0).end - find(trace, "0TP0", 0).start).ns, 30'000'000);
  EXPECT_EQ(find(trace, "0CP0", 0).end, find(trace, "0F0", 0).start + SimDuration{100'000'000});
  EXPECT_EQ(to_text(find(trace, "0DP0", 0).origin), "0B0");
  trace::Interval& apart = find(trace, "0TP2", 0);
  apart.start = apart.start + SimDuration{1};
  EXPECT_THAT(found(plan, trace),
              ::testing::Contains(HasSubstr("0TP2 of rank 0 in iteration 1 does not follow 0F2")));
}

TEST(CheckTrace, RefusesATraceOfAnotherPlan) {
  const plan::Plan plan = two_pipelines();
  trace::Trace trace = simulate(plan)->trace;
  trace.intervals.back().rank = 4;
  const Result<Check> check = check_trace(plan, trace);
  ASSERT_FALSE(check);
  EXPECT_THAT(check.error().text(), HasSubstr("on rank 4, which the Plan does not have"));
}

}  // namespace
}  // namespace tombolo::sim
