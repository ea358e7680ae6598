#include "predict/strand/co_run.h"

#include <gtest/gtest.h>

#include "predict/strand/exposure.h"
#include "predict/strand/gain_spread.h"
#include "predict/strand/round_robin.h"
#include "predict/strand/sm_share.h"

namespace tombolo::strand {
namespace {

// Wavelet with a barrier after each pair of operators.
double lock_step_seconds(const StrandPair& pair, double barrier) {
  double seconds = 0;
  const size_t steps = std::max(pair.forward().size(), pair.backward().size());
  for (size_t i = 0; i < steps; ++i) {
    const PairSet both{i < pair.forward().size() ? only(i) : 0,
                       i < pair.backward().size() ? only(i) : 0};
    seconds += segment_seconds(pair, both) + barrier;
  }
  return seconds;
}

Operator product(double seconds, OperatorSet after = 0) {
  return {.name = "product", .seconds = seconds, .after = after};
}
Operator gather(double seconds, OperatorSet after = 0) {
  return {.name = "gather",
          .kind = Kind::kTensor,
          .stream = Stream::kLocal,
          .seconds = seconds,
          .after = after};
}
Operator keys(double seconds, OperatorSet after = 0) {
  return {.name = "keys",
          .kind = Kind::kContext,
          .stream = Stream::kCross,
          .seconds = seconds,
          .after = after};
}

Dag dag_of(std::vector<Operator> operators) {
  Dag dag;
  for (Operator& op : operators) dag.add(std::move(op));
  return dag;
}

OverlapTable halves() {
  OverlapTable table;
  table.set("product", "local", {0.8, 0.5});
  table.set("product", "cross", {0.9, 1});
  table.set("local", "cross", {1, 1});
  return table;
}

// Beside each other a gather of 4 takes 8, in which the product does 6.4 of its 10: 8 + 3.6.
TEST(CoRun, OperatorsSlowEachOtherDown) {
  const StrandPair pair(dag_of({product(10)}), dag_of({gather(4)}), halves());
  std::vector<OperatorRun> runs;
  EXPECT_DOUBLE_EQ(segment_seconds(pair, pair.all(), &runs), 11.6);
  ASSERT_EQ(runs.size(), 2U);
  EXPECT_DOUBLE_EQ(runs[0].end, 8);
  EXPECT_DOUBLE_EQ(segment_bound(pair, pair.all()), 10);

  const Exposure e = exposure_of(pair, runs, 11.6);
  EXPECT_DOUBLE_EQ(e.slowdown, 1.6);
  EXPECT_DOUBLE_EQ(e.hidden_share(), 1 - 1.6 / 4);
}

// Beside two others paces multiply: 0.8 x 0.9.
TEST(CoRun, ThreeAtOnce) {
  const StrandPair pair(dag_of({product(7.2)}), dag_of({gather(5), keys(10)}), halves());
  EXPECT_DOUBLE_EQ(segment_seconds(pair, pair.all()), 10);
}

// The forward strand gathers (4), then multiplies (2); the backward one multiplies (6). Urgent
// first: both start at 0; the gather ends at 8, when the product has done its 6 (7.5). Then 2.
TEST(CoRun, WaitsForWhatIsNeededAndForItsStream) {
  const StrandPair pair(dag_of({gather(4), product(2, 1)}), dag_of({product(6)}), halves());
  EXPECT_DOUBLE_EQ(segment_seconds(pair, pair.all()), 7.5 + (4 - 7.5 * 0.5) + 2);
}

// In order a stream waits for its first; eagerly it takes what can start.
TEST(CoRun, DisciplineAndEvents) {
  const StrandPair pair(dag_of({gather(4), product(2, 1)}), dag_of({product(6)}), OverlapTable{});
  const std::vector<double> forward_first{0, 0, 1};
  EXPECT_DOUBLE_EQ(co_run(pair, pair.all(), {.rank = forward_first}), 8 + 2 + 2);
  EXPECT_DOUBLE_EQ(
      co_run(pair, pair.all(), {.rank = forward_first, .discipline = Discipline::kInOrder}),
      4 + 2 + 6);
  const std::vector<PairSet> after_gather{{}, {}, {.forward = 1}};
  EXPECT_DOUBLE_EQ(co_run(pair, pair.all(), {.rank = forward_first, .waits = after_gather}), 12);
}

// A framework runs a strand in order, but that asynchronous communication goes on beside it.
TEST(CoRun, OneStrandAlone) {
  Operator ahead = keys(2, 1);
  ahead.async = true;
  const StrandPair pair(dag_of({product(1), ahead, product(3, 1), product(3, 0b110)}),
                        dag_of({gather(5), product(1)}), halves());
  EXPECT_DOUBLE_EQ(strand_seconds(pair, true), 1 + 2 + (3 - 2 * 0.9) + 3);
  EXPECT_DOUBLE_EQ(strand_seconds(pair, false), 6);
  EXPECT_DOUBLE_EQ(sequential_seconds(pair), 1 + 2 + 1.2 + 3 + 6);
}

// seconds = computation + slowdown + waiting + standing, to the account of each kind.
TEST(Exposure, AccountsForEveryInstant) {
  const StrandPair pair(dag_of({gather(4), product(2, 1), keys(3, 0b10)}), dag_of({product(1)}),
                        halves());
  std::vector<OperatorRun> runs;
  const double seconds = segment_seconds(pair, pair.all(), &runs) + 0.5;
  const Exposure e = exposure_of(pair, runs, seconds);
  EXPECT_DOUBLE_EQ(e.computation, 3);
  EXPECT_DOUBLE_EQ(e.slowdown, 1.25 * 0.2);
  EXPECT_DOUBLE_EQ(e.waiting[0], 4 - 1.25 * 0.5);
  EXPECT_DOUBLE_EQ(e.waiting[1], 3);
  EXPECT_DOUBLE_EQ(e.standing, 0.5);
  EXPECT_DOUBLE_EQ(e.seconds,
                   e.computation + e.slowdown + e.waiting[0] + e.waiting[1] + e.standing);
  EXPECT_EQ(e.communication, (std::array<double, 3>{4, 3, 0}));
}

// Without errors every draw is the plan itself; with them the low gain is below the expected one,
// and equal seeds give equal answers.
TEST(GainSpread, ErrorsWidenIt) {
  StrandPair pair(dag_of({gather(4), product(6, 1)}), dag_of({product(10)}), halves());
  const auto plan = [](const StrandPair& p) { return segment_seconds(p, p.all()); };
  const double gain = 20 / plan(pair);
  const GainSpread sure = gain_spread(pair, {.law = 0}, plan);
  EXPECT_DOUBLE_EQ(sure.low, gain);
  EXPECT_NEAR(sure.expected, gain, 1e-12);
  const GainSpread unsure = gain_spread(pair, {.law = 0.2}, plan);
  EXPECT_LT(unsure.low, gain);
  EXPECT_GT(unsure.high, gain);
  EXPECT_EQ(gain_spread(pair, {.law = 0.2}, plan).low, unsure.low);
  const GainSpread measured = gain_spread(pair, {.law = 0.2, .measured = {1e-6, 1e-6, 1e-6}}, plan);
  EXPECT_NEAR(measured.low, gain, 1e-4);
}

// More multiprocessors: a faster gather, and slower products beside it. What DeepEP measured.
TEST(SmShare, TradesLinksForComputation) {
  const StrandPair pair(dag_of({product(10)}), dag_of({gather(726)}), halves());
  const StrandPair few = with_sm_share(pair, 64.0 / 132, 24.0 / 132);
  EXPECT_NEAR(few[1].seconds / pair[1].seconds, 726.0 / 643, 0.003);
  EXPECT_GT(few.pace(0, 1), pair.pace(0, 1));
  EXPECT_EQ(few.pace(1, 0), pair.pace(1, 0));
  EXPECT_DEATH(with_sm_share(pair, 0.1, 1), "shares of 0.1 and 1");
}

// In turn and in lock step: gather beside product, then product beside product.
TEST(RoundRobin, PairsOperatorByOperator) {
  const StrandPair pair(dag_of({gather(4), product(2, 1)}), dag_of({product(6), product(1, 1)}),
                        halves());
  const double first = 7.5 + (4 - 7.5 * 0.5);
  EXPECT_DOUBLE_EQ(lock_step_seconds(pair, 0.1), first + 0.1 + 3 + 0.1);
  EXPECT_DOUBLE_EQ(in_turn_seconds(pair), 7.5 + (4 - 7.5 * 0.5) + 2 + 1);
}

}  // namespace
}  // namespace tombolo::strand
