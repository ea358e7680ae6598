#include "perform/train/balanced_owners.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <numeric>

#include "base/random.h"

namespace tombolo::train {
namespace {

using testing::ElementsAre;

TEST(BalancedOwners, TakeTheLargestFirst) {
  std::vector<int64_t> loads(2);
  // 7 to the first, 5 to the second, which has less and gets 4; then 3 and 2 to the first.
  EXPECT_THAT(balanced_owners(std::vector<int64_t>{2, 7, 4, 3, 5}, loads),
              ElementsAre(1, 0, 1, 0, 1));
  EXPECT_THAT(loads, ElementsAre(10, 11));
  // The next stage begins with who has less.
  EXPECT_THAT(balanced_owners(std::vector<int64_t>{8}, loads), ElementsAre(0));
  EXPECT_THAT(loads, ElementsAre(18, 11));
}

TEST(BalancedOwners, AreWithinTheLargestOfTheMean) {
  Random random(4);
  for (int round = 0; round < 100; ++round) {
    std::vector<int64_t> sizes(1 + random.below(40)), loads(1 + random.below(8));
    for (int64_t& size : sizes) size = 1 + static_cast<int64_t>(random.below(1000));
    const auto owners = balanced_owners(sizes, loads);
    std::vector<int64_t> counted(loads.size());
    for (size_t i = 0; i < sizes.size(); ++i) counted[static_cast<size_t>(owners[i])] += sizes[i];
    EXPECT_EQ(counted, loads);
    const auto all = std::accumulate(sizes.begin(), sizes.end(), int64_t{0});
    EXPECT_LT(*std::max_element(loads.begin(), loads.end()),
              all / static_cast<int64_t>(loads.size()) + 1 +
                  *std::max_element(sizes.begin(), sizes.end()));
  }
}

}  // namespace
}  // namespace tombolo::train
