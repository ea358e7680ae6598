// Every schedule twice: predicted by the simulator, and performed with real bytes by ranks in
// threads over links in virtual time. Both must have done the same, each computation and each
// transfer at the same nanosecond.
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <tuple>
#include <variant>

#include "perform/kernels/neighbours.h"
#include "predict/sim/simulate.h"
#include "support/test_plan.h"
#include "support/virtual_run.h"

namespace tombolo {
namespace {

// When what happened, with how many bytes: by lane, ranks, action, iteration and part.
using Key = std::tuple<int, int32_t, int32_t, std::string, int64_t, int32_t>;
// What a forward and a backward of a microbatch communicate inside has one name.
using Happened = std::map<Key, std::set<std::tuple<int64_t, int64_t, int64_t>>>;

void add(const trace::Trace& trace, Happened& out) {
  for (const trace::Interval& i : trace.intervals) {
    const Key key{static_cast<int>(i.lane),  i.rank,      i.peer,
                  action::to_text(i.action), i.iteration, i.part};
    auto& spans = out[key];
    EXPECT_TRUE(spans.empty() || std::holds_alternative<trace::PassPart>(i.origin))
        << action::to_text(i.action) << " of iteration " << i.iteration << " twice";
    spans.insert({i.start.ns, i.end.ns, i.bytes});
  }
}

void expect_the_same(const plan::Plan& plan, const std::string& name) {
  const auto simulation = sim::simulate(plan, {.iterations = static_cast<int>(plan.run.steps)});
  ASSERT_TRUE(simulation) << name << ": " << simulation.error().text();
  const auto parts = stage::perform_virtually(plan);
  ASSERT_TRUE(parts) << name << ": " << parts.error().text();
  Happened predicted, performed;
  add(simulation->trace, predicted);
  for (const trace::Trace& part : *parts) add(part, performed);
  EXPECT_FALSE(predicted.empty());
  EXPECT_EQ(predicted.size(), performed.size()) << name;
  for (const auto& [key, span] : predicted) {
    const auto found = performed.find(key);
    const std::string what = fmt::format("{}: rank {}, {} of iteration {}", name, std::get<1>(key),
                                         std::get<3>(key), std::get<4>(key));
    ASSERT_NE(found, performed.end()) << what << " was not performed";
    ASSERT_EQ(found->second, span) << what;
  }
}

int chunks_of(const std::string& schedule) {
  return layout::mapping_of(*layout::find_schedule(schedule)) == layout::StageMapping::kLine ? 1
                                                                                             : 2;
}

// In three datacenters; round and round needs a link from the last to the first.
plan::Plan plan_of(TestPlan wanted) {
  wanted.virtual_stages = chunks_of(wanted.schedule);
  wanted.ring = wanted.schedule == "interleaved";
  return make_test_plan(wanted);
}

class EverySchedule : public ::testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Performed, EverySchedule, ::testing::ValuesIn(layout::schedule_names()),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::erase(name, '-');
                           return name;
                         });

// The backward of 5 ms has halves of 3 and 2; messages wait for each other where the transfer is
// longer than a forward.
TEST_P(EverySchedule, IsPerformedAsPredicted) {
  for (const char* transfer : {"300 us", "1700 us"}) {
    expect_the_same(plan_of({.stages = 3,
                             .microbatches = 6,
                             .steps = 2,
                             .forward = "2 ms",
                             .backward = "5000001 ns",
                             .transfer = transfer,
                             .schedule = GetParam()}),
                    fmt::format("{} with transfers of {}", GetParam(), transfer));
  }
}

TEST_P(EverySchedule, IsPerformedAsPredictedByReplicas) {
  expect_the_same(plan_of({.stages = 2,
                           .microbatches = 4,
                           .replicas = 2,
                           .steps = 2,
                           .reduce = "3 ms",
                           .schedule = GetParam()}),
                  GetParam());
}

// Collectives inside passes, and sums that begin beside them: a part of the last pass, more than it, all of the sum.
TEST_P(EverySchedule, IsPerformedAsPredictedWithCollectives) {
  for (const auto& [hidden, exposed] : {std::pair{1.5e-3, 2e-3}, {9e-3, 1e-3}, {3e-3, 0.0}}) {
    plan::Plan plan = plan_of({.stages = 2,
                               .microbatches = 4,
                               .replicas = 2,
                               .steps = 2,
                               .forward = "2 ms",
                               .backward = "5000001 ns",
                               .schedule = GetParam()});
    double more = 0;  // replicas of later stages begin later than those of the first ones
    for (plan::Stage& stage : plan.stages) {
      stage.cost.reduce = Seconds{exposed + more};
      stage.cost.reduce_hidden = Seconds{hidden};
      stage.cost.forward_communication = {.tensor = 300_us, .context = {}, .expert = 200_us};
      stage.cost.backward_communication = {.tensor = 500_us, .context = 100_us, .data = 1_ms};
      more += 1e-4;
    }
    plan.parallelism.microbatches_per_replica = {3, 5};
    if (GetParam() == "interleaved") plan.parallelism.microbatches_per_replica = {4, 4};
    expect_the_same(plan, fmt::format("{}, {} s hidden", GetParam(), hidden));
  }
}

// One rank that holds all stages sends nothing.
TEST_P(EverySchedule, IsPerformedAsPredictedByOneRank) {
  const plan::Plan plan =
      plan_of({.stages = 1, .microbatches = 3, .steps = 2, .schedule = GetParam()});
  EXPECT_TRUE(kernels::neighbours(plan, 0).empty());
  expect_the_same(plan, GetParam());
}

// As a Plan carries it, with releases.
TEST_P(EverySchedule, IsPerformedAsPredictedWhereItWasGiven) {
  plan::Plan plan =
      plan_of({.stages = 3, .microbatches = 5, .replicas = 2, .steps = 2, .schedule = GetParam()});
  if (GetParam() == "interleaved") {
    plan = plan_of({.stages = 3, .microbatches = 6, .replicas = 2, .schedule = GetParam()});
  }
  auto built = schedule::build(plan);
  ASSERT_TRUE(built) << built.error().text();
  built->release = {SimDuration{0}, SimDuration{1'234'567}};
  plan.given = schedule::to_given(*built);
  expect_the_same(plan, GetParam());
}

// Co-executed, whichever side ends first: the forward's result leaves before the pair has ended, or
// the backward's does.
class EveryScheduleWithPairs : public ::testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Performed, EveryScheduleWithPairs, ::testing::Values("w", "dualpipev"));

plan::Plan plan_with_pairs(TestPlan wanted, const char* pair, const char* pair_forward) {
  wanted.pair = pair;
  wanted.pair_forward = pair_forward;
  wanted.forward = "2 ms";
  wanted.backward = "5000001 ns";
  return plan_of(wanted);
}

TEST_P(EveryScheduleWithPairs, IsPerformedAsPredicted) {
  for (const char* transfer : {"300 us", "1700 us"}) {
    for (const char* forward_end : {"5500003 ns", "2200000 ns"}) {
      const TestPlan wanted{.stages = 3,
                            .microbatches = 8,
                            .replicas = 2,
                            .steps = 2,
                            .transfer = transfer,
                            .reduce = "3 ms",
                            .schedule = GetParam()};
      plan::Plan plan = plan_with_pairs(wanted, "5500003 ns", forward_end);
      expect_the_same(plan, GetParam());
      for (plan::PairCost& pair : plan.pairs) {
        pair.backward_end = Seconds{5.000001e-3};
        pair.forward_end = Seconds{5.7e-3};
      }
      expect_the_same(plan, GetParam() + ", backwards that end first");
    }
  }
}

TEST_P(EveryScheduleWithPairs, IsPerformedAsPredictedWhereItWasGiven) {
  plan::Plan plan = plan_with_pairs(
      {.stages = 3, .microbatches = 7, .steps = 2, .schedule = GetParam()}, "6 ms", "6 ms");
  plan.given = schedule::to_given(*schedule::build(plan));
  expect_the_same(plan, GetParam());
}

}  // namespace
}  // namespace tombolo
