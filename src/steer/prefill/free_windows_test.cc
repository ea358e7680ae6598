#include "steer/prefill/free_windows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace tombolo::prefill {
namespace {

using ::testing::ElementsAre;

std::vector<Span> list(const FreeWindows& windows, SimTime from) {
  return {windows.first_after(from), windows.end()};
}

// Busy [20, 30) and [50, 80) of 100, a guard of 2; layers of 5 at least.
FreeWindows windows() { return FreeWindows({{{20}, {30}}, {{50}, {80}}}, {100}, {2}, {5}); }

TEST(FreeWindows, ArePeriodicAndLeaveTheGuardFree) {
  FreeWindows w = windows();
  w.reach({0}, {151});
  EXPECT_THAT(list(w, {0}), ElementsAre(Span{{0}, {18}}, Span{{30}, {48}}, Span{{80}, {118}},
                                        Span{{130}, {148}}, Span{{180}, {218}}));
  EXPECT_EQ(w.earliest().ns, 0);
  w.reach({40}, {151});
  EXPECT_EQ(w.earliest().ns, 30);
  EXPECT_THAT(list(w, {148}), ElementsAre(Span{{180}, {218}}));
}

TEST(FreeWindows, BeginAnywhereInTime) {
  FreeWindows w = windows();
  w.reach({10'010}, {10'060});
  EXPECT_THAT(list(w, {10'010}), ElementsAre(Span{{10'010}, {10'018}}, Span{{10'030}, {10'048}},
                                             Span{{10'080}, {10'118}}));
}

TEST(FreeWindows, LoseWhatIsTakenAndWhatIsTooShort) {
  FreeWindows w = windows();
  w.reach({0}, {100});
  EXPECT_TRUE(w.take({5}, {10}));     // leaves 5 on the left and 8 on the right
  EXPECT_TRUE(w.take({32}, {44}));    // leaves 2 and 4: too short for a layer
  EXPECT_FALSE(w.take({9}, {12}));    // part of it is taken
  EXPECT_FALSE(w.take({90}, {120}));  // it ends in the guard
  EXPECT_THAT(list(w, {0}), ElementsAre(Span{{0}, {5}}, Span{{10}, {18}}, Span{{80}, {118}}));
  w.block({15}, {90});
  EXPECT_THAT(list(w, {0}), ElementsAre(Span{{0}, {5}}, Span{{10}, {15}}, Span{{90}, {118}}));
}

// From 40 on training is 7 later: its computation of [50, 80) is at [57, 87).
TEST(FreeWindows, AreMadeAnewWhereTrainingIsLate) {
  FreeWindows w = windows();
  w.reach({0}, {100});
  w.remake({40}, {7}, {3});
  EXPECT_THAT(list(w, {40}), ElementsAre(Span{{40}, {54}}, Span{{87}, {124}}));
  EXPECT_EQ(w.guard().ns, 3);
}

TEST(FreeWindows, OfAGpuWithoutTrainingNeverEnd) {
  FreeWindows w({}, {100}, {2}, {5});
  w.reach({0}, {100});
  EXPECT_TRUE(w.take({10}, {5000}));
  EXPECT_THAT(list(w, {10}), ElementsAre(Span{{5000}, {INT64_MAX}}));
}

TEST(FreeWindows, OfAGpuThatIsNeverFreeAreNone) {
  FreeWindows w({{{0}, {100}}}, {100}, {2}, {5});
  w.reach({0}, {1'000'000});
  EXPECT_THAT(list(w, {0}), ElementsAre());
  EXPECT_GE(w.earliest().ns, 1'000'000);
}

}  // namespace
}  // namespace tombolo::prefill
