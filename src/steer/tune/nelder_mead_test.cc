#include "steer/tune/nelder_mead.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace tombolo::tune {
namespace {

// (x - 1)^2 + 10 (y + 2)^2 has its least at (1, -2); in the box [0, 3] x [-1, 1] at (1, -1): 10.
TEST(NelderMead, FindsTheLeastOfABowlAndStaysInItsBox) {
  const auto bowl = [](std::span<const double> p) {
    return (p[0] - 1) * (p[0] - 1) + 10 * (p[1] + 2) * (p[1] + 2);
  };
  const Minimum free = nelder_mead(bowl, {3, 3}, {.low = {-5, -5}, .high = {5, 5}});
  EXPECT_NEAR(free.at[0], 1, 1e-6);
  EXPECT_NEAR(free.at[1], -2, 1e-6);
  const Minimum bounded = nelder_mead(bowl, {9, 9}, {.low = {0, -1}, .high = {3, 1}});
  EXPECT_NEAR(bounded.at[0], 1, 1e-6);
  EXPECT_EQ(bounded.at[1], -1);
  EXPECT_NEAR(bounded.value, 10, 1e-9);
}

// Rosenbrock's valley: 0 at (1, 1).
TEST(NelderMead, FollowsAValley) {
  const auto valley = [](std::span<const double> p) {
    return 100 * std::pow(p[1] - p[0] * p[0], 2) + std::pow(1 - p[0], 2);
  };
  const Minimum found = nelder_mead(valley, {-1.2, 1}, {.low = {-2, -2}, .high = {2, 2}});
  EXPECT_NEAR(found.at[0], 1, 1e-4);
  EXPECT_NEAR(found.at[1], 1, 1e-4);
}

TEST(NelderMead, LeavesACoordinateWithoutRoomAndPassesOverWhatIsNotFinite) {
  const auto half = [](std::span<const double> p) {
    return p[0] < 2 ? std::numeric_limits<double>::quiet_NaN() : p[0] + p[1];
  };
  const Minimum found = nelder_mead(half, {4, 7}, {.low = {0, 7}, .high = {5, 7}});
  EXPECT_EQ(found.at[1], 7);
  EXPECT_NEAR(found.at[0], 2, 1e-6);
  const Minimum fixed = nelder_mead(half, {3, 7}, {.low = {3, 7}, .high = {3, 7}});
  EXPECT_EQ(fixed.at, (std::vector<double>{3, 7}));
  EXPECT_EQ(fixed.value, 10);
}

}  // namespace
}  // namespace tombolo::tune
