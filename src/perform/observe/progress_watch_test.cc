#include "perform/observe/progress_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/test_plan.h"
#include "support/test_times.h"

namespace tombolo::observe {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr const char* kNamed =
    "rank 0 (oregon) has made no progress for 30 s (its usual iteration takes 2.1 s); its "
    "heartbeats "
    "continue";

class ProgressWatchTest : public ::testing::Test {
 protected:
  // A report every second, of the same; what is said meanwhile.
  std::vector<std::string> report(int64_t done, bool waits, int64_t from_ms, int64_t to_ms) {
    std::vector<std::string> lines;
    for (int64_t at = from_ms; at <= to_ms; at += 1000) {
      const auto line = watch_.add(0, {done, waits}, at_ms(at), usual_);
      if (line) lines.push_back(*line);
    }
    return lines;
  }

  const plan::Plan plan_ = make_test_plan({});
  std::optional<Seconds> usual_ = Seconds{2.1};
  ProgressWatch watch_{plan_};
};

TEST_F(ProgressWatchTest, NamesOnceWhoComputesAndGetsNothingDone) {
  EXPECT_THAT(report(5, false, 0, 29'000), IsEmpty());
  EXPECT_FALSE(watch_.hang(0));
  EXPECT_THAT(report(5, false, 30'000, 90'000), ElementsAre(kNamed));
  EXPECT_EQ(watch_.hang(0)->since, at_ms(0));
  EXPECT_THAT(report(6, false, 91'000, 120'000),
              ElementsAre("rank 0 (oregon) makes progress again, after 91 s"));
  EXPECT_FALSE(watch_.hang(0));
  EXPECT_THAT(report(6, false, 121'000, 121'000), ElementsAre(kNamed));
}

TEST_F(ProgressWatchTest, TenIterationsMayBeLongerThan30Seconds) {
  usual_ = Seconds{5};
  EXPECT_THAT(report(5, false, 0, 49'000), IsEmpty());
  EXPECT_THAT(
      report(5, false, 50'000, 50'000),
      ElementsAre("rank 0 (oregon) has made no progress for 50 s (its usual iteration takes "
                  "5 s); its heartbeats continue"));
}

TEST_F(ProgressWatchTest, WhoWaitsIsNotNamed) {
  EXPECT_THAT(report(5, true, 0, 900'000), IsEmpty());
  EXPECT_THAT(report(5, false, 901'000, 930'000), ElementsAre(kNamed)) << "from then on";
}

TEST_F(ProgressWatchTest, WhoGetsSomethingDoneIsNotNamed) {
  for (int64_t batch = 0; batch < 20; ++batch)  // of an evaluation, say
    EXPECT_THAT(report(5 + batch, false, batch * 25'000, batch * 25'000 + 24'000), IsEmpty());
}

TEST_F(ProgressWatchTest, AFirstIterationTakesAsLongAsItLikes) {
  usual_.reset();
  EXPECT_THAT(report(5, false, 0, 900'000), IsEmpty());
  usual_ = Seconds{2.1};
  EXPECT_THAT(report(5, false, 901'000, 929'000), IsEmpty());
  EXPECT_THAT(report(5, false, 930'000, 930'000), ElementsAre(kNamed));
}

// The host slept, or its path was cut: what the rank did in that time is not known.
TEST_F(ProgressWatchTest, SilenceIsNoHang) {
  EXPECT_THAT(report(5, false, 0, 20'000), IsEmpty());
  EXPECT_THAT(report(5, false, 60'000, 89'000), IsEmpty());
  EXPECT_THAT(report(5, false, 90'000, 90'000), ElementsAre(kNamed));
}

}  // namespace
}  // namespace tombolo::observe
