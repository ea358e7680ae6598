#include "spec/schedule/local_steps.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tombolo::schedule {
namespace {

using ::testing::ElementsAre;

std::vector<int64_t> iterations_where(const auto& holds, int64_t until) {
  std::vector<int64_t> out;
  for (int64_t i = 1; i <= until; ++i)
    if (holds(i)) out.push_back(i);
  return out;
}

TEST(LocalSteps, BeginEveryHStepsAndEndLater) {
  const OuterSteps steps{.every = 5, .offset = 2, .delay = 4};
  EXPECT_THAT(iterations_where([&](int64_t i) { return steps.begins(i); }, 15),
              ElementsAre(3, 8, 13));
  EXPECT_THAT(iterations_where([&](int64_t i) { return steps.ends(i).has_value(); }, 15),
              ElementsAre(7, 12));
  EXPECT_EQ(steps.ends(12), 8);
  EXPECT_EQ(steps.number(3), 1);
  EXPECT_EQ(steps.number(13), 3);
}

// Against the definition, one iteration after the other.
TEST(LocalSteps, UnderWayIsWhatBeganBeforeAndHasNotEnded) {
  for (int64_t every = 1; every <= 7; ++every) {
    for (int64_t offset = 0; offset < every; ++offset) {
      for (int64_t delay = 0; delay < every; ++delay) {
        const OuterSteps steps{every, offset, delay};
        std::optional<int64_t> open;
        for (int64_t i = 1; i <= 30; ++i) {
          EXPECT_EQ(steps.under_way(i), open) << every << " " << offset << " " << delay << " " << i;
          if (steps.begins(i)) open = i;
          if (steps.ends(i)) open.reset();
        }
      }
    }
  }
}

TEST(LocalSteps, FragmentsHaveAboutEqualBytes) {
  EXPECT_THAT(fragments_of(std::vector<double>{1, 1, 1, 1}, 2), ElementsAre(0, 0, 1, 1));
  EXPECT_THAT(fragments_of(std::vector<double>{6, 1, 1, 4}, 2), ElementsAre(0, 1, 1, 1));
  EXPECT_THAT(fragments_of(std::vector<double>{1, 1}, 5), ElementsAre(1, 3));
  EXPECT_THAT(fragments_of(std::vector<double>{1, 2, 3}, 1), ElementsAre(0, 0, 0));
}

// Of two alone one update each way, nothing else; a third replica gets all from its leader.
TEST(LocalSteps, AnOuterStepIsAnUpdateOfEachDatacenter) {
  const auto two = outer_exchange(std::vector{0, 1}, 100, 3).rounds;
  ASSERT_EQ(two.size(), 1u);
  EXPECT_THAT(two[0], ElementsAre(ExchangeMessage{0, 1, 0, 100, false, 0},
                                  ExchangeMessage{1, 0, 0, 100, false, 1}));
  const auto three = outer_exchange(std::vector{0, 0, 1}, 100, 0).rounds;
  ASSERT_EQ(three.size(), 2u);
  EXPECT_THAT(three[0], ElementsAre(ExchangeMessage{0, 1, 0, 100, false, 0},
                                    ExchangeMessage{0, 2, 0, 100, false, 0},
                                    ExchangeMessage{2, 0, 0, 100, false, 1}));
  EXPECT_THAT(three[1], ElementsAre(ExchangeMessage{0, 1, 0, 100, false, 1}));
}

TEST(LocalSteps, GradientsAreSummedInsideADatacenterAlone) {
  EXPECT_TRUE(sum_inside(std::vector{0, 1}, 100).rounds.empty());
  for (const auto& round : sum_inside(std::vector{0, 0, 1, 1, 1}, 100).rounds)
    for (const ExchangeMessage& each : round) EXPECT_EQ(each.from < 2, each.to < 2);
}

}  // namespace
}  // namespace tombolo::schedule
