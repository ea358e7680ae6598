#include "steer/prefill/training_tracker.h"

#include <gtest/gtest.h>

namespace tombolo::prefill {
namespace {

// Computations at [0, 30) and [60, 90) of periods of 100 ns that begin at 1000.
TrainingTracker tracker() {
  return TrainingTracker({{{0}, {30}}, {{60}, {90}}}, {100}, {1000}, {2});
}

TEST(TrainingTracker, IsFreeUntilTheNextComputationLessTheGuard) {
  TrainingTracker t = tracker();
  EXPECT_EQ(t.free_until()->ns, 1000 - 2);
  t.begins(0, 0, {1000});
  EXPECT_FALSE(t.free_until());
  EXPECT_EQ(t.next().ns, 1060);
  t.ends(0, 0, {1030});
  EXPECT_EQ(t.free_until()->ns, 1060 - 2);
  t.begins(0, 1, {1060});
  EXPECT_EQ(t.next().ns, 1100);
  t.ends(0, 1, {1090});
  EXPECT_EQ(t.free_until()->ns, 1100 - 2);
}

// What begins 5 late ends 5 late and is followed at the planned distance; the next signal says more.
TEST(TrainingTracker, FollowsTrainingThatIsLateOrEarly) {
  TrainingTracker t = tracker();
  t.begins(0, 0, {1005});
  EXPECT_EQ(t.late().ns, 5);
  t.ends(0, 0, {1035});
  EXPECT_EQ(t.next().ns, 1065);
  t.begins(0, 1, {1058});
  EXPECT_EQ(t.late().ns, -2);
  t.ends(0, 1, {1091});
  EXPECT_EQ(t.next().ns, 1101);
}

TEST(TrainingTracker, ToleratesSignalsThatAreMissing) {
  TrainingTracker t = tracker();
  t.ends(3, 1, {1397});
  EXPECT_EQ(t.next().ns, 1407);
}

// Of every period's second computation: it comes 4 early twice, then is expected so.
TEST(TrainingTracker, ExpectsWhatTheLastPeriodsShowed) {
  TrainingTracker t = tracker();
  for (int64_t k = 0; k < 4; ++k) {
    const int64_t at = 1000 + 100 * k;
    t.begins(k, 0, {at});
    t.ends(k, 0, {at + 30});
    EXPECT_EQ(t.next().ns, at + (k < 3 ? 60 : 56));
    t.begins(k, 1, {at + 56});
    t.ends(k, 1, {at + 90});
  }
}

TEST(DriftLearner, IsTheMedianOfTheLastFive) {
  DriftLearner drift;
  for (const int64_t each : {100, -7}) drift.observe({each});
  EXPECT_EQ(drift.value().ns, 0);
  drift.observe({3});
  EXPECT_EQ(drift.value().ns, 3);
  for (const int64_t each : {4, 5, 6}) drift.observe({each});
  EXPECT_EQ(drift.value().ns, 4);  // of -7, 3, 4, 5, 6
}

// 99 of 100 came 10 early and one 1000: type 7 puts the 99th percentile at index 98.01 of 0..99.
TEST(GuardLearner, HoldsAgainstAllButTheRarest) {
  GuardLearner guard({7});
  for (int i = 0; i < 31; ++i) guard.observe({10});
  EXPECT_EQ(guard.value().ns, 7);
  for (int i = 31; i < 99; ++i) guard.observe({10});
  EXPECT_EQ(guard.value().ns, 10);
  guard.observe({1000});
  EXPECT_EQ(guard.value().ns, 19);  // 10 + 0.01 x 990, rounded down
}

TEST(GuardLearner, CountsLateOnesAsNothingAndForgets) {
  GuardLearner guard({7});
  for (size_t i = 0; i < GuardLearner::kKept; ++i) guard.observe({500});
  EXPECT_EQ(guard.value().ns, 500);
  for (size_t i = 0; i < GuardLearner::kKept; ++i) guard.observe({-300});
  EXPECT_EQ(guard.value().ns, 0);
}

}  // namespace
}  // namespace tombolo::prefill
