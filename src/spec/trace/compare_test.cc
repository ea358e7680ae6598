#include "spec/trace/compare.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tombolo::trace {
namespace {

using ::testing::HasSubstr;

void add(Trace& trace, action::ActionKind kind, int32_t stage, int64_t iteration, int64_t start,
         int64_t end) {
  trace.intervals.push_back({.lane = action::is_send(kind) ? Lane::kLink : Lane::kCompute,
                             .rank = stage,
                             .action = {kind, stage, 0},
                             .iteration = iteration,
                             .start = {start},
                             .end = {end}});
}

// Predicted: one iteration of 100, forwards of 20 and 40. Measured: a slow first iteration of 500,
// then 125, 150 and 120: median 125; forwards of stage 0 take 25 each.
struct Pair {
  Trace predicted, measured;
};
Pair pair() {
  Pair out;
  out.predicted.header.plan_digest = out.measured.header.plan_digest = "same";
  out.measured.header.provenance = Provenance::kMeasured;
  add(out.predicted, action::ActionKind::kForward, 0, 1, 0, 20);
  add(out.predicted, action::ActionKind::kSendActivation, 0, 1, 20, 60);
  add(out.predicted, action::ActionKind::kForward, 1, 1, 60, 100);
  int64_t start = 0;
  int64_t iteration = 0;
  for (const int64_t length : {500, 125, 150, 120}) {
    add(out.measured, action::ActionKind::kForward, 0, ++iteration, start, start + 25);
    add(out.measured, action::ActionKind::kUpdate, 0, iteration, start + 100, start + length);
    start += length;
  }
  return out;
}

TEST(Compare, ByHand) {
  const Pair traces = pair();
  const Comparison result = *compare(traces.predicted, traces.measured);
  EXPECT_EQ(result.predicted_iteration.ns, 100);
  EXPECT_EQ(result.measured_iteration.ns, 125);
  EXPECT_DOUBLE_EQ(result.iteration_error, -0.2);
  EXPECT_EQ(result.measured_iterations, 3);

  ASSERT_EQ(result.per_kind.size(), 3u);  // F, U, SEND_F
  const KindComparison& forward = result.per_kind[0];
  EXPECT_EQ(forward.kind, "F");
  EXPECT_EQ(forward.predicted_count, 2);
  EXPECT_EQ(forward.measured_count, 3);
  EXPECT_DOUBLE_EQ(forward.predicted_mean->value, 30e-9);  // (20 + 40) / 2
  EXPECT_DOUBLE_EQ(forward.measured_mean->value, 25e-9);
  EXPECT_DOUBLE_EQ(*forward.relative_error, 0.2);
  EXPECT_EQ(result.per_kind[1].kind, "U");
  EXPECT_FALSE(result.per_kind[1].predicted_mean);
  EXPECT_FALSE(result.per_kind[1].relative_error);
  EXPECT_EQ(result.per_kind[2].kind, "SEND_F");
  EXPECT_EQ(result.per_kind[2].measured_count, 0);

  ASSERT_EQ(result.per_stage.size(), 4u);  // 0F, 0U, 0SEND_F, 1F
  EXPECT_EQ(result.per_stage[0].stage, 0);
  EXPECT_DOUBLE_EQ(*result.per_stage[0].relative_error, -0.2);  // 20 for 25
  EXPECT_EQ(result.per_stage[3].stage, 1);
}

// Two replicas of one stage. Predicted: both sum from 20 to 30. Measured: one comes at 20, the
// other at 26, and both are through at 36: means of 10 and (16 + 10) / 2 = 13, and (10 - 13) / 13.
TEST(Compare, SumsOfGradientsCountFromEachArrival) {
  Pair traces;
  const auto add_sum = [](Trace& trace, int32_t rank, int64_t start, int64_t end) {
    add(trace, action::ActionKind::kForward, 0, 1, 0, start);
    trace.intervals.back().rank = rank;
    trace.intervals.push_back({.lane = Lane::kCollective,
                               .rank = rank,
                               .action = {action::ActionKind::kReduceGradients, 0, -1},
                               .iteration = 1,
                               .start = {start},
                               .end = {end}});
  };
  add_sum(traces.predicted, 0, 20, 30);
  add_sum(traces.predicted, 1, 20, 30);
  add_sum(traces.measured, 0, 20, 36);
  add_sum(traces.measured, 1, 26, 36);
  const Comparison result = *compare(traces.predicted, traces.measured, {.warmup = 0});
  ASSERT_EQ(result.per_kind.size(), 2u);  // F, REDUCE_GRAD
  const KindComparison& sum = result.per_kind[1];
  EXPECT_EQ(sum.kind, "REDUCE_GRAD");
  EXPECT_EQ(sum.predicted_count, 2);
  EXPECT_DOUBLE_EQ(sum.predicted_mean->value, 10e-9);
  EXPECT_DOUBLE_EQ(sum.measured_mean->value, 13e-9);
  EXPECT_DOUBLE_EQ(*sum.relative_error, -3.0 / 13);
  EXPECT_EQ(result.iteration_error, (30.0 - 36.0) / 36.0);
}

TEST(Compare, WarmupIsLeftOut) {
  const Pair traces = pair();
  // With the first iteration the median of 500, 125, 150 and 120 is 137.5.
  EXPECT_EQ(compare(traces.predicted, traces.measured, {.warmup = 0})->measured_iteration.ns, 137);
  const Result<Comparison> nothing = compare(traces.predicted, traces.measured, {.warmup = 4});
  ASSERT_FALSE(nothing);
  EXPECT_THAT(nothing.error().text(), HasSubstr("4 iterations, of which 4 are warm-up"));
}

TEST(Compare, WarmupIsOneIterationOfWhatWasPerformedWhereOthersAreLeft) {
  const Pair traces = pair();
  EXPECT_EQ(warmup_of(traces.predicted), 0);
  EXPECT_EQ(warmup_of(traces.measured), 1);
  EXPECT_EQ(compare(traces.predicted, traces.measured)->warmup, 1);
  EXPECT_EQ(warm_iterations(traces.measured).size() + 1, iteration_times(traces.measured).size());
  EXPECT_EQ(warmup_of(1, false), 0);
  EXPECT_EQ(warmup_of(2, false), 1);
  EXPECT_EQ(warmup_of(2, true), 0) << "of two that overlap neither is a whole period";
  EXPECT_EQ(warmup_of(3, true), 1);
}

Value plan_with(const char* forward, int pipeline) {
  return Value(
      Value::Table{{"tombolo_plan", 1},
                   {"parallelism", Value(Value::Table{{"pipeline", pipeline}})},
                   {"stages", Value(Value::Array{Value(Value::Table{{"forward", forward}})})}});
}

TEST(PlanDifferences, AreNamedByKeyInTheOrderOfThePlan) {
  const auto plan = [](int64_t steps, double forward, Value::Array ranks) {
    return Value(Value::Table{{"run", Value::Table{{"steps", steps}, {"seed", 1}}},
                              {"stages", Value::Array{Value::Table{{"forward", 1.5}},
                                                      Value::Table{{"forward", forward}}}},
                              {"ranks", std::move(ranks)}});
  };
  Header a, b;
  a.plan = plan(4, 2, {0, 1});
  b.plan = a.plan;
  EXPECT_TRUE(plan_differences(a, b).empty());
  b.plan = plan(10, 3.5, {0});
  b.plan.set("given", "orders");
  const std::vector<PlanDifference> found = plan_differences(a, b);
  ASSERT_EQ(found.size(), 4u);
  EXPECT_EQ(found[1].key, "stages[1].forward");
  EXPECT_EQ(brief(found),
            "run.steps 4 and 10, stages[1].forward 2.0 and 3.5, ranks [0,1] and [0], given nothing "
            "and \"orders\"");
  // Who carries no Plan differs in nothing that could be named.
  a.plan = Value();
  EXPECT_TRUE(plan_differences(a, b).empty());
}

// Another forecast of the same work is what comparing is for; other work is not.
TEST(Compare, RefusesOtherWorkButNotOtherForecasts) {
  Pair traces = pair();
  traces.predicted.header.plan_digest = "other";
  traces.predicted.header.plan = plan_with("1 ms", 2);
  traces.measured.header.plan = plan_with("2 ms", 2);
  EXPECT_TRUE(compare(traces.predicted, traces.measured));

  traces.measured.header.plan = plan_with("1 ms", 3);
  const Result<Comparison> refused = compare(traces.predicted, traces.measured);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().exit_code(), 2);
  EXPECT_THAT(refused.error().text(), HasSubstr("different Plans"));
  EXPECT_TRUE(compare(traces.predicted, traces.measured, {.allow_different_plans = true}));
}

TEST(Compare, RefusesEmptyTraces) {
  EXPECT_FALSE(compare({}, pair().measured, {.allow_different_plans = true}));
  EXPECT_FALSE(compare(pair().predicted, {}, {.allow_different_plans = true}));
}

}  // namespace
}  // namespace tombolo::trace
