#include "perform/observe/step_record.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/file.h"
#include "support/folder_test.h"

namespace tombolo::observe {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;

class StepRecordTest : public FolderTest {
 protected:
  StepRecord open(bool goes_on) {
    auto record = StepRecord::open(at("losses.jsonl"), goes_on);
    CHECK(record, "{}", record.error().text());
    return std::move(*record);
  }
};

TEST_F(StepRecordTest, TheNextLauncherKnowsWhatTheOneBeforeWrote) {
  {
    StepRecord record = open(false);
    EXPECT_EQ(record.last(), 0);
    ASSERT_TRUE(record.add(1, 5.5) && record.add(2, 5.25) && record.add(3, std::nullopt));
  }
  StepRecord record = open(true);
  EXPECT_EQ(record.last(), 3);
  EXPECT_THAT(record.losses(), ElementsAre(Pair(1, 5.5), Pair(2, 5.25)));
  EXPECT_EQ(record.first_loss(), 5.5);
  record.remove();
  EXPECT_FALSE(read_file(at("losses.jsonl")));
}

TEST_F(StepRecordTest, AnotherRunForgetsThem) {
  ASSERT_TRUE(open(false).add(1, 5.5));
  EXPECT_THAT(open(false).losses(), IsEmpty());
  EXPECT_THAT(open(true).losses(), IsEmpty());
}

// After a loss the run went back to step 1.
TEST_F(StepRecordTest, AStepThatWasDoneAgainCountsAsItWasDoneLast) {
  {
    StepRecord record = open(false);
    for (const auto& [step, loss] : {std::pair(1, 5.5), {2, 5.25}, {3, 5.0}, {2, 5.125}})
      ASSERT_TRUE(record.add(step, loss));
  }
  const StepRecord record = open(true);
  EXPECT_EQ(record.last(), 2);
  EXPECT_THAT(record.losses(), ElementsAre(Pair(1, 5.5), Pair(2, 5.125), Pair(3, 5.0)));
}

TEST_F(StepRecordTest, KilledInTheMiddleOfALine) {
  { ASSERT_TRUE(open(false).add(1, 5.5)); }
  { ASSERT_TRUE(open(true).add(2, 5.25)); }
  const std::string whole = *read_file(at("losses.jsonl"));
  const size_t first = whole.find('\n') + 1;
  for (size_t left = 0; left <= whole.size(); ++left) {
    ASSERT_TRUE(write_file(at("losses.jsonl"), whole.substr(0, left)));
    StepRecord record = open(true);
    EXPECT_EQ(record.last(), left == whole.size() ? 2 : left >= first ? 1 : 0);
    ASSERT_TRUE(record.add(3, 5.0));
    const StepRecord next = open(true);
    EXPECT_EQ(next.last(), 3);
    EXPECT_EQ(next.losses().size(), static_cast<size_t>(record.losses().size()));
  }
}

}  // namespace
}  // namespace tombolo::observe
