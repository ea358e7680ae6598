#include "perform/data/sample_order.h"

#include <gmock/gmock.h>

#include <numeric>
#include <vector>

#include "base/random.h"

namespace tombolo::data {
namespace {

using testing::ElementsAre;
using testing::Ne;

std::vector<int64_t> epoch_of(const SampleOrder& order, int64_t epoch) {
  std::vector<int64_t> out;
  for (int64_t i = 0; i < order.samples(); ++i) out.push_back(order.at(epoch, i));
  return out;
}

TEST(SampleOrder, EveryEpochIsAPermutation) {
  Random random(11);
  std::vector<int64_t> sizes{1, 2, 3, 4, 5, 15, 16, 17, 1023, 1024, 1025};
  for (int i = 0; i < 20; ++i) sizes.push_back(1 + static_cast<int64_t>(random.below(5000)));
  for (const int64_t samples : sizes) {
    const SampleOrder order(samples, random.next(), true);
    for (const int64_t epoch : {0, 1, 1'000'000}) {
      std::vector<bool> seen(static_cast<size_t>(samples));
      for (const int64_t sample : epoch_of(order, epoch)) {
        ASSERT_TRUE(sample >= 0 && sample < samples) << sample << " of " << samples;
        ASSERT_FALSE(seen[static_cast<size_t>(sample)]) << sample << " twice of " << samples;
        seen[static_cast<size_t>(sample)] = true;
      }
    }
  }
}

TEST(SampleOrder, IsAnotherWithAnotherSeedAndInEveryEpoch) {
  const auto first = epoch_of(SampleOrder(1000, 1, true), 0);
  EXPECT_EQ(epoch_of(SampleOrder(1000, 1, true), 0), first);
  // Two random orders of 1,000 agree in one place on average.
  for (const auto& other :
       {epoch_of(SampleOrder(1000, 2, true), 0), epoch_of(SampleOrder(1000, 1, true), 1)}) {
    int same = 0;
    for (size_t i = 0; i < other.size(); ++i) same += other[i] == first[i] ? 1 : 0;
    EXPECT_LT(same, 10);
  }
}

// A sum of squared rank differences, as in Spearman's coefficient: 0 where the order is random, 1
// where it is left as it was.
TEST(SampleOrder, LeavesNothingOfTheOrderOfTheFile) {
  const double n = 10'000;
  const auto order = epoch_of(SampleOrder(10'000, 3, true), 0);
  double sum = 0;
  for (size_t i = 0; i < order.size(); ++i) {
    const double difference = static_cast<double>(order[i]) - static_cast<double>(i);
    sum += difference * difference;
  }
  EXPECT_NEAR(1 - 6 * sum / (n * (n * n - 1)), 0, 0.05);  // five standard deviations
}

TEST(SampleOrder, PositionsRunThroughTheEpochs) {
  const SampleOrder order(7, 5, true);
  for (int64_t position = 0; position < 30; ++position) {
    EXPECT_EQ(order.at(position), order.at(position / 7, position % 7));
  }
  const SampleOrder plain(4, 5, false);
  EXPECT_THAT(epoch_of(plain, 0), ElementsAre(0, 1, 2, 3));
  EXPECT_EQ(plain.at(6), 2);
}

TEST(SampleOrder, WorksForMoreSamplesThanAnybodyHas) {
  const int64_t samples = int64_t{1} << 61;
  const SampleOrder order(samples, 1, true);
  EXPECT_LT(order.at(3, samples - 1), samples);
  EXPECT_THAT(order.at(3, samples - 1), Ne(order.at(3, samples - 2)));
}

// A run that is resumed by another version must read on where it was: this order is a promise.
TEST(SampleOrder, IsTheSameInEveryVersion) {
  EXPECT_THAT(epoch_of(SampleOrder(10, 1, true), 0), ElementsAre(5, 1, 9, 7, 4, 2, 8, 3, 0, 6));
  EXPECT_EQ(SampleOrder(1'000'000'000, 42, true).at(7, 123'456'789), 298'235'083);
}

}  // namespace
}  // namespace tombolo::data
