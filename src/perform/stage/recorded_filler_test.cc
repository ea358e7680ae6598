#include "perform/stage/recorded_filler.h"

#include <gtest/gtest.h>

namespace tombolo::stage {
namespace {

// Every other piece is one of 3 ns; the others take 2 ns to find that there is nothing.
class EveryOther final : public Filler {
 public:
  explicit EveryOther(ManualClock& clock) : clock_(clock) {}
  bool fill(SimTime) override {
    const bool fills = asked_++ % 2 == 0;
    clock_.advance({fills ? 3 : 2});
    return fills;
  }

 private:
  ManualClock& clock_;
  int asked_ = 0;
};

// Pieces at 0-3, 5-8 and 10-13. The run began at 4, and two spans are remembered at most: of those the
// first one came before it.
TEST(RecordedFiller, RemembersPiecesAndNoEmptyLooks) {
  ManualClock clock;
  EveryOther filler(clock);
  RecordedFiller recorded(&filler, clock, 2);
  for (int i = 0; i < 5; ++i) EXPECT_EQ(recorded.fill(kNever), i % 2 == 0);
  const auto all = recorded.intervals(1, 1, SimTime{});
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[1].end - all[1].start, SimDuration{3});
  const auto since = recorded.intervals(1, 1, clock.now() - SimDuration{9});
  ASSERT_EQ(since.size(), 1u);
  EXPECT_EQ(since[0].start.ns, 1);
  EXPECT_EQ(since[0].iteration, 0);
  EXPECT_EQ(to_text(since[0].action), "1PROMPT");
}

TEST(RecordedFiller, WithoutAFillerFillsNothing) {
  ManualClock clock;
  RecordedFiller recorded(nullptr, clock);
  EXPECT_FALSE(recorded.fill(kNever));
  EXPECT_TRUE(recorded.intervals(0, 0, SimTime{}).empty());
}

}  // namespace
}  // namespace tombolo::stage
