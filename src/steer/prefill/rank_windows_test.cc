#include "steer/prefill/rank_windows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tombolo::prefill {
namespace {

using action::Action;
using action::ActionKind;
using ::testing::ElementsAre;

constexpr Action kForward0{ActionKind::kForward, 0, 0}, kForward1{ActionKind::kForward, 0, 1};
constexpr Action kBackward0{ActionKind::kBackward, 0, 0}, kUpdate{ActionKind::kUpdate, 0, -1};

// F0 [0, 100) and F1 [100, 200) touch; B0 [500, 800); the update [900, 950); a period of 1000.
RankPlan toy_plan_of_a_rank() {
  return {.period = {1000},
          .computations = {{kForward0, {0}, {100}},
                           {kForward1, {100}, {200}},
                           {kBackward0, {500}, {800}},
                           {kUpdate, {900}, {950}}}};
}

TEST(RankPlans, JoinTheTwoPartsOfAPass) {
  trace::Trace trace;
  for (int32_t r = 0; r < 2; ++r) trace.header.ranks.push_back({.rank = r});
  const auto add = [&](int32_t rank, const Action& action, int64_t iteration, int64_t start,
                       int64_t end) {
    trace.intervals.push_back(
        {.rank = rank, .action = action, .iteration = iteration, .start = {start}, .end = {end}});
  };
  for (int64_t i = 1; i <= 2; ++i) {
    const int64_t t = 5000 + 1000 * i;
    add(0, kBackward0, i, t + 60, t + 70);
    add(0, kForward0, i, t, t + 10);
    add(0, kForward0, i, t + 15, t + 25);
    add(1, kForward1, i, t + 30, t + 50);
  }
  const auto plans = *rank_plans(trace);
  ASSERT_EQ(plans.size(), 2u);
  EXPECT_EQ(plans[0].period.ns, 1000);
  EXPECT_THAT(plans[0].computations, ElementsAre(PlannedComputation{kForward0, {0}, {25}},
                                                 PlannedComputation{kBackward0, {60}, {70}}));
  EXPECT_THAT(plans[1].computations, ElementsAre(PlannedComputation{kForward1, {30}, {50}}));
  EXPECT_THAT(busy_of(plans[0]), ElementsAre(Span{{0}, {25}}, Span{{60}, {70}}));
}

TEST(RankWindows, EndBeforeTheNextComputationByTheGuard) {
  RankWindows windows(toy_plan_of_a_rank(), {5});
  EXPECT_EQ(windows.until({0}), std::nullopt);  // not known when it begins
  windows.begins(7, kForward0, {10'000});
  windows.ends(7, kForward0, {10'100});
  EXPECT_LE(windows.until({10'101})->ns, 10'101);  // the second forward is due
  windows.begins(7, kForward1, {10'110});
  windows.ends(7, kForward1, {10'210});
  EXPECT_EQ(windows.until({10'210})->ns, 10'510 - 5);  // ten late, and stays so
  windows.begins(7, kBackward0, {10'510});
  windows.ends(7, kBackward0, {10'805});
  EXPECT_EQ(windows.until({10'810})->ns, 10'905 - 5);
  windows.begins(7, kUpdate, {10'905});
  windows.ends(7, kUpdate, {10'950});
  EXPECT_EQ(windows.until({10'960})->ns, 11'000 - 5);  // the next period's forward
  EXPECT_EQ(windows.period_begin()->ns, 10'000);
}

TEST(RankWindows, KeepFreeWhenTrainingIsExpectedAndGiveUpWhenItDoesNotCome) {
  RankWindows windows(toy_plan_of_a_rank(), {5});
  windows.begins(1, kForward0, {0});
  windows.ends(1, kForward1, {200});
  EXPECT_EQ(windows.until({499})->ns, 495);
  EXPECT_EQ(windows.until({520})->ns, 495);
  EXPECT_EQ(windows.until({521}), std::nullopt);  // a fiftieth of the period behind 500
  windows.begins(1, Action{ActionKind::kEvaluate, 0, 3}, {600});  // no part of an iteration
  EXPECT_EQ(windows.until({521}), std::nullopt);
}

// The message was there at 480, and a layer ran until 510: that was no late training.
TEST(RankWindows, DoNotTakeWaitingForALayerForLateTraining) {
  RankWindows windows(toy_plan_of_a_rank(), {5});
  windows.begins(1, kForward0, {0});
  windows.ends(1, kForward1, {200});
  windows.held({30});
  windows.begins(1, kBackward0, {510});
  EXPECT_EQ(windows.period_begin()->ns, -20);
  windows.begins(1, kUpdate, {900});
  EXPECT_EQ(windows.period_begin()->ns, 0);
}

// Of a gap of 300 only 250 are there, in every period: from the third on the window ends there.
TEST(RankWindows, LearnThatAGapIsShorterThanPredicted) {
  RankWindows windows(toy_plan_of_a_rank(), {5});
  for (int64_t i = 0; i < 4; ++i) {
    const SimTime t{1000 * i};
    windows.begins(i, kForward0, t);
    windows.ends(i, kForward1, t + SimDuration{200});
    EXPECT_EQ(windows.until(t + SimDuration{210})->ns, t.ns + (i < 3 ? 495 : 445));
    windows.begins(i, kBackward0, t + SimDuration{450});
    windows.ends(i, kBackward0, t + SimDuration{800});
    windows.begins(i, kUpdate, t + SimDuration{900});
    windows.ends(i, kUpdate, t + SimDuration{950});
  }
}

}  // namespace
}  // namespace tombolo::prefill
