#include "spec/schedule/schedule_csv.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "spec/schedule/passes.h"

namespace tombolo::schedule {
namespace {

TEST(ScheduleCsv, ReadsBackWhatItWrites) {
  const Schedule schedule = *build(layout::ScheduleKind::k1F1B, {4, 6, {true, true, true, false}});
  const std::string text = to_csv(schedule, CsvContent::kEverything);
  EXPECT_EQ(parse_csv(text, "1f1b")->ranks, schedule.ranks);
}

// As torchtitan stores them: computations only, with empty cells for bubbles.
TEST(ScheduleCsv, ComputationsAreCompletedByThePasses) {
  Schedule read = *parse_csv("0F0,0F1,,,0B0,,0B1\n,1F0,1B0,1F1,1B1,,\n", "by hand");
  read.ranks = add_communication(read.ranks, {2, 2, {}});
  add_update(read.ranks, {2, 2, {}});
  EXPECT_EQ(read.ranks, build(layout::ScheduleKind::k1F1B, {2, 2, {}})->ranks);
}

TEST(ScheduleCsv, SaysWhereACellIsWrong) {
  const Result<Schedule> result = parse_csv("0F0,0B0\n1F0,1X0\n", "a.csv");
  ASSERT_FALSE(result);
  EXPECT_THAT(result.error().text(), ::testing::HasSubstr("a.csv:2: \"1X0\" is not an action"));
}

}  // namespace
}  // namespace tombolo::schedule
