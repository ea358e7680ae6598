#include "decide/search/any_gpus.h"

#include <gtest/gtest.h>

#include <numeric>

#include "base/random.h"

namespace tombolo::search {
namespace {

TEST(AnyGpus, FitsWhereverPiecesDivide) {
  Random random(3);
  for (int i = 0; i < 100; ++i) {
    std::vector<PieceJob> jobs;
    int64_t left = 8 * 16;
    while (left > 0 && jobs.size() < 30) {
      const int64_t piece = int64_t{1} << random.below(4);
      const int64_t gpus = piece * static_cast<int64_t>(1 + random.below(6));
      if (gpus > left) continue;
      jobs.push_back({gpus, piece});
      left -= gpus;
    }
    const AnyGpus placed = place_anywhere(8, 16, jobs);
    EXPECT_EQ(placed.gpus, 8 * 16 - left);
    EXPECT_TRUE(placed.proven);
    for (size_t job = 0; job < jobs.size(); ++job) {
      ASSERT_TRUE(placed.of_domain[job]);
      EXPECT_EQ(*placed.of_domain[job] % jobs[job].piece, 0);
    }
  }
}

TEST(AnyGpus, LeavesOutWhatLeavesLeastFree) {
  // 16 GPUs: 10 and 6, not 12 alone.
  const std::vector<PieceJob> jobs = {{12, 1}, {10, 1}, {6, 1}};
  const AnyGpus placed = place_anywhere(8, 2, jobs);
  EXPECT_EQ(placed.gpus, 16);
  EXPECT_FALSE(placed.of_domain[0]);
}

// Two pieces of three leave two of eight GPUs free: another job of three has no place there.
TEST(AnyGpus, KeepsPiecesTogether) {
  const std::vector<PieceJob> jobs = {{9, 3}};
  const AnyGpus one = place_anywhere(8, 1, jobs), two = place_anywhere(8, 2, jobs);
  EXPECT_EQ(one.gpus, 0);
  EXPECT_EQ(two.gpus, 9);
  EXPECT_EQ(two.of_domain[0], 3);
}

}  // namespace
}  // namespace tombolo::search
