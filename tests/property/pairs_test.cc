// What the simulator makes of schedules with pairs: their laws, to the nanosecond, whatever the
// speed-up; and that its Traces add up again.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "decide/schedule_proof/bounds.h"
#include "predict/sim/channels.h"
#include "predict/sim/interpret.h"
#include "predict/sim/simulate.h"
#include "predict/sim/trace_check.h"
#include "spec/schedule/bidirectional.h"
#include "support/test_plan.h"

namespace tombolo {
namespace {

// Of half a stage, in nanoseconds: divisible by 2, 11, 12 and 13, so that pairs are whole.
constexpr int64_t kForward = 1'716'000;
constexpr int64_t kBackward = 2 * kForward;

// Three datacenters, messages free; a pair takes the sum of both over s.
plan::Plan plan_of(const std::string& schedule, int stages, int microbatches, double speed_up) {
  const double pair = static_cast<double>(kForward + kBackward) / speed_up;
  return make_test_plan({.stages = stages,
                         .microbatches = microbatches,
                         .forward = fmt::format("{} ns", kForward),
                         .backward = fmt::format("{} ns", kBackward),
                         .transfer = "0 ns",
                         .pair = fmt::format("{:.0f} ns", pair),
                         .schedule = schedule,
                         .virtual_stages = 2});
}

int64_t simulated(const plan::Plan& plan) {
  const auto simulation = sim::simulate(plan);
  CHECK(simulation, "{}", simulation.error().text());
  const auto check = sim::check_trace(plan, simulation->trace);
  CHECK(check, "{}", check.error().text());
  EXPECT_TRUE(check->violations.empty()) << check->violations.front().text;
  EXPECT_EQ(check->peak_memory, simulation->peak_memory);
  return simulation->iteration.ns;
}

TEST(SimulatedPairs, TakeAsLongAsTheirLaws) {
  for (const double s : {1.1, 1.2, 1.3}) {
    const int64_t apart = kForward + kBackward;
    const auto pair = static_cast<int64_t>(std::llround(static_cast<double>(apart) / s));
    for (int p = 1; p <= 4; ++p) {
      for (const int m : {2 * p, 3 * p, 8 * p}) {
        EXPECT_EQ(simulated(plan_of("w", p, m, s)), 2 * (m - 1) * pair + 2 * p * apart);
        // f = i = w: (P-1)(F&B + B - 3 W) of bubble.
        const int64_t work = 2 * m * apart - 2 * (m - p) * (apart - pair);
        EXPECT_EQ(simulated(plan_of("dualpipev", p, m, s)),
                  work + (p - 1) * (pair + kBackward - 3 * kForward));
      }
    }
  }
}

// DualPipe, two copies of the model. A Plan of the fold lends places and times: what it calls a chunk
// is a whole stage here, of which each copy has half of the microbatches.
TEST(SimulatedPairs, OfTwoCopiesTakeAsLongAsTheirLaw) {
  for (const double s : {1.1, 1.2, 1.3}) {
    const int64_t apart = kForward + kBackward;
    const auto pair = static_cast<int64_t>(std::llround(static_cast<double>(apart) / s));
    for (const int p : {2, 4}) {
      for (const int m : {2 * p, 4 * p}) {
        const plan::Plan plan = plan_of("dualpipev", p, m / 2, s);
        const schedule::Schedule schedule = schedule::bidirectional(schedule::shape_of(plan));
        const graph::Graphs graphs = schedule::to_graph(plan, schedule);
        int64_t end = 0;
        for (const auto& of_rank :
             sim::interpret(graphs, sim::channels_of(plan, schedule, graphs)).spans) {
          for (const sim::Span& span : of_rank) end = std::max(end, span.end.ns);
        }
        const int64_t work = m * apart - (m - p) * (apart - pair);
        EXPECT_EQ(end, work + (p / 2 - 1) * (pair + kBackward - 3 * kForward)) << p << " x " << m;
      }
    }
  }
}

// No schedule beats a bound, with pairs or without.
TEST(SimulatedPairs, AreNoShorterThanTheBounds) {
  for (const char* name : {"w", "dualpipev"}) {
    for (const double s : {1.0, 1.1, 1.3}) {
      for (const int m : {2, 6, 24}) {
        const plan::Plan plan = plan_of(name, 3, m, s);
        for (const auto& bound :
             schedule_proof::lower_bounds(schedule::shape_of(plan), schedule::times_of(plan), {})) {
          EXPECT_LE(bound.value.ns, simulated(plan)) << name << " " << bound.reason;
        }
      }
    }
  }
}

// 1F1B's first position keeps P microbatches. W keeps as many on every position, half a one more
// where a chunk is freed at once, and a layer more where activations go layer by layer: here each
// chunk has eight layers of 1 GB.
TEST(SimulatedPairs, NeedALayerMoreAndNotAChunk) {
  for (const char* name : {"w", "dualpipev"}) {
    plan::Plan plan = plan_of(name, 4, 12, 1.2);
    for (size_t s = 0; s < plan.stages.size(); ++s) {
      plan.stages[s].slice.first_layer = static_cast<int64_t>(8 * s);
      plan.stages[s].slice.layers = 8;
      plan.stages[s].activations = 8_GB;
    }
    simulated(plan);
    const auto peaks = schedule::peak_memory(plan, *schedule::build(plan));
    EXPECT_THAT(peaks, ::testing::Each(8 * 8_GB + 1_GB)) << name;
    plan.pairs.clear();
    EXPECT_THAT(schedule::peak_memory(plan, *schedule::build(plan)), ::testing::Each(9 * 8_GB));
  }
}

// Groups of gradients are exchanged between datacenters while the next iteration begins.
TEST(SimulatedPairs, RunBesideAnExchange) {
  for (const char* name : {"w", "dualpipev"}) {
    const plan::Plan plan = make_test_plan({.stages = 2,
                                            .microbatches = 6,
                                            .replicas = 2,
                                            .forward = "20 ms",
                                            .backward = "40 ms",
                                            .pair = "50 ms",
                                            .pair_forward = "30 ms",
                                            .schedule = name,
                                            .virtual_stages = 2,
                                            .apart = true});
    ASSERT_TRUE(plan.exchange_overlaps());
    EXPECT_GT(simulated(plan), 0);
  }
}

TEST(SimulatedPairs, AreSeenWhereTheirSidesDoNotBeginTogether) {
  const plan::Plan plan = plan_of("w", 2, 4, 1.2);
  trace::Trace trace = sim::simulate(plan)->trace;
  for (trace::Interval& interval : trace.intervals) {
    if (action::to_text(interval.action) == "3B0") interval.start = interval.start + SimDuration{1};
  }
  const auto violations = sim::check_trace(plan, trace)->violations;
  ASSERT_FALSE(violations.empty());
  EXPECT_THAT(violations.front().text, ::testing::HasSubstr("does not begin with"));
}

// A Plan that names the schedule and not how long its pairs take.
TEST(SimulatedPairs, WantTimesOfAll) {
  plan::Plan plan = plan_of("w", 2, 4, 1.2);
  plan.pairs.erase(plan.pairs.begin());
  EXPECT_THAT(sim::simulate(plan).error().text(),
              ::testing::HasSubstr("the Plan has no pair of stages 0 and 3"));
  plan.pairs.front().forward_end = Seconds{0};
  EXPECT_THAT(sim::simulate(plan).error().text(), ::testing::HasSubstr("alone they take"));
}

}  // namespace
}  // namespace tombolo
