#include "steer/prefill/gap_admission.h"

#include <gtest/gtest.h>

namespace tombolo::prefill {
namespace {

constexpr action::Action kFirst{action::ActionKind::kForward, 0, 0};
constexpr action::Action kSecond{action::ActionKind::kForward, 0, 1};

// Computes [0, 100) and [400, 500) of periods of 1000, which begin at 50 in truth; a guard of 10.
RankWindows windows_at_50() {
  RankWindows windows(
      {.period = {1000}, .computations = {{kFirst, {0}, {100}}, {kSecond, {400}, {500}}}}, {10});
  windows.begins(1, kFirst, {50});
  windows.ends(1, kFirst, {150});
  return windows;
}

// Any prompt's layer takes 100.
DurationTable hundred() {
  return *DurationTable::make({{1, Seconds{100e-9}}, {64, Seconds{100e-9}}});
}

// Windows [150, 440) and [550, 1040) hold two and four layers, the next ones from 1150 on again two.
TEST(GapAdmission, PassesTakeTheirTurnsInTheWindows) {
  const RankWindows windows = windows_at_50();
  const auto ends = [&](const std::vector<int64_t>& passes, int64_t within) {
    const auto end = end_of_passes(windows, hundred(), 3, passes, {within}, {150});
    return end ? end->ns : -1;
  };
  EXPECT_EQ(ends({7}, 10'000), 650);     // two layers, then one
  EXPECT_EQ(ends({1, 7}, 10'000), 950);  // three more of the same window
  EXPECT_EQ(ends({1, 1, 7}, 10'000), 1550 + 100);
  EXPECT_EQ(ends({7}, 500), 650);
  EXPECT_EQ(ends({7}, 499), -1);
  EXPECT_EQ(ends({1, 7}, 799), -1);
}

// No layer of 500 fits anywhere.
TEST(GapAdmission, RefusesWhatFitsIntoNoWindow) {
  const auto long_layers = *DurationTable::make({{64, Seconds{500e-9}}});
  EXPECT_FALSE(end_of_passes(windows_at_50(), long_layers, 1, {64}, {1'000'000}, {150}));
}

}  // namespace
}  // namespace tombolo::prefill
