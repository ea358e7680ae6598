#include "perform/observe/silence_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/test_plan.h"
#include "support/test_times.h"

namespace tombolo::observe {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<LinkReport> silent(int32_t peer, SimDuration span) {
  LinkReport report;
  report.link.peer = peer;
  report.silent = span;
  return {report};
}

constexpr const char* kSilentNamed = "rank 1 (paris) has heard nothing from rank 2 (tokyo) for 5 s";
constexpr const char* kBoth =
    "rank 1 (paris) has heard nothing from rank 2 (tokyo) for 5 s; both reach the launcher";

class SilenceWatchTest : public ::testing::Test {
 protected:
  // Reports of a second each, of a link that is heard.
  void hear(std::initializer_list<int32_t> ranks, int64_t from_ms, int64_t to_ms) {
    for (int64_t at = from_ms; at <= to_ms; at += 1000) {
      for (const int32_t rank : ranks)
        EXPECT_THAT(watch_.add(rank, silent(3 - rank, ms(100)), at_ms(at)), IsEmpty());
    }
  }
  std::vector<std::string> rank_one_says(SimDuration span, int64_t at) {
    return watch_.add(1, silent(2, span), at_ms(at));
  }

  const plan::Plan plan_ = make_test_plan({.stages = 3});
  SilenceWatch watch_{plan_};
};

TEST_F(SilenceWatchTest, NamesASilentLinkOnce) {
  hear({1, 2}, 0, 3000);
  for (const int64_t at : {4000, 5000, 6000, 7000}) {
    EXPECT_THAT(rank_one_says(ms(at - 3000), at), IsEmpty());
    hear({2}, at, at);
  }
  EXPECT_THAT(rank_one_says(ms(4999), 7999), IsEmpty());
  EXPECT_THAT(rank_one_says(ms(5000), 8000), ElementsAre(kBoth));
  EXPECT_THAT(rank_one_says(ms(6000), 9000), IsEmpty()) << "it was named";
  EXPECT_THAT(rank_one_says(ms(0), 10'000), IsEmpty());
  EXPECT_THAT(rank_one_says(ms(5000), 15'000), ElementsAre(kSilentNamed))
      << "rank 2 has said nothing for long";
  EXPECT_THAT(watch_.add(1, silent(9, ms(9000)), at_ms(16'000)), IsEmpty()) << "no rank of ours";
}

TEST_F(SilenceWatchTest, DoesNotSayThatARankReachesTheLauncherThatWasCutOffWithItsLink) {
  hear({1, 2}, 0, 4000);
  hear({2}, 5000, 5000);  // what was on its way
  for (const int64_t at : {6000, 7000, 8000})
    EXPECT_THAT(rank_one_says(ms(at - 4200), at), IsEmpty());
  EXPECT_THAT(rank_one_says(ms(5300), 9500), ElementsAre(kSilentNamed));
}

TEST_F(SilenceWatchTest, DoesNotBelieveReportsThatComeAllAtOnceWhenACutIsOver) {
  hear({1, 2}, 0, 4000);
  hear({2}, 5000, 9000);
  for (const int64_t silence : {1000, 2000, 3000, 4000})
    EXPECT_THAT(rank_one_says(ms(silence), 9500), IsEmpty());
  EXPECT_THAT(rank_one_says(ms(5000), 9500), ElementsAre(kSilentNamed));
}

}  // namespace
}  // namespace tombolo::observe
