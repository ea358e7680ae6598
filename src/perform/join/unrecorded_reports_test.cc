#include "perform/join/unrecorded_reports.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/file.h"
#include "support/folder_test.h"

namespace tombolo::join {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class UnrecordedReportsTest : public FolderTest {
 protected:
  static ControlMessage progress(int64_t step) {
    return ProgressReport{{.iteration = step, .loss = 1.0 / static_cast<double>(step)}};
  }
  static std::vector<int64_t> steps(const std::vector<ControlMessage>& reports) {
    std::vector<int64_t> out;
    for (const ControlMessage& report : reports) {
      if (const auto* progress = std::get_if<ProgressReport>(&report))
        out.push_back(progress->report.iteration);
      if (const auto* evaluation = std::get_if<EvaluationReport>(&report))
        out.push_back(-evaluation->evaluation.step);
    }
    return out;
  }
  const std::string path_ = UnrecordedReports::path(folder_, 3);
};

// The launcher had recorded up to step 2 when it was lost; this rank continued to step 5 meanwhile,
// and the run continues after step 4.
TEST_F(UnrecordedReportsTest, GoToTheNextLauncher) {
  {
    UnrecordedReports reports;
    reports.begin(path_);
    for (const int64_t step : {1, 2, 3}) reports.add(step, progress(step));
    reports.add(3, EvaluationReport{{.step = 3, .loss = 0.25}});
    reports.recorded(2);
    EXPECT_EQ(reports.size(), 2u);
    EXPECT_FALSE(read_file(path_)) << "nothing is written while the launcher is there";
    reports.leave();
    for (const int64_t step : {4, 5}) reports.add(step, progress(step));
  }
  UnrecordedReports next;
  const auto left = next.take_over(path_, 5);
  EXPECT_THAT(steps(left), ElementsAre(3, -3, 4));
  EXPECT_EQ(std::get<ProgressReport>(left[0]).report.loss, 1.0 / 3) << "to the last bit";
  // Lost again before it could record them.
  next.add(5, progress(5));
  next.recorded(3);
  next.leave();
  EXPECT_THAT(steps(UnrecordedReports().take_over(path_, 9)), ElementsAre(4, 5));
  next.forget();
  EXPECT_FALSE(read_file(path_));
}

TEST_F(UnrecordedReportsTest, OfAnotherRunAreForgotten) {
  UnrecordedReports reports;
  reports.begin(path_);
  reports.add(1, progress(1));
  reports.leave();
  ASSERT_TRUE(read_file(path_));
  UnrecordedReports next;
  next.begin(path_);
  EXPECT_FALSE(read_file(path_));
  EXPECT_THAT(next.take_over(path_, 9), IsEmpty());
}

TEST_F(UnrecordedReportsTest, KilledInTheMiddleOfALine) {
  UnrecordedReports reports;
  reports.begin(path_);
  for (const int64_t step : {1, 2}) reports.add(step, progress(step));
  reports.leave();
  const std::string whole = *read_file(path_);
  const size_t first = whole.find('\n') + 1;
  for (size_t left = 0; left < whole.size(); ++left) {
    ASSERT_TRUE(write_file(path_, whole.substr(0, left)));
    EXPECT_EQ(UnrecordedReports().take_over(path_, 9).size(), left >= first ? 1u : 0u);
  }
  ASSERT_TRUE(write_file(path_, "{\"stop\":{\"reason\":\"another kind\"}}\nnothing\n" + whole));
  EXPECT_THAT(steps(UnrecordedReports().take_over(path_, 9)), ElementsAre(1, 2));
}

// A run that is over, or a rank that never had a place for them.
// A launcher whose disk is full records nothing, for as long as the run takes.
TEST_F(UnrecordedReportsTest, KeepTheNewestOfVeryMany) {
  UnrecordedReports reports(1000);
  reports.begin(path_);
  for (int64_t step = 1; step <= 1002; ++step) reports.add(step, progress(step));
  EXPECT_EQ(reports.size(), 1000u);
  reports.leave();
  UnrecordedReports next;
  EXPECT_EQ(steps(next.take_over(path_, 1003)).front(), 3);
}

TEST_F(UnrecordedReportsTest, AreNotLeftWhereNobodyWantsThem) {
  UnrecordedReports without;
  without.add(1, progress(1));
  without.leave();
  EXPECT_EQ(without.size(), 0u);
  UnrecordedReports over;
  over.begin(path_);
  over.add(1, progress(1));
  over.forget();
  over.add(2, progress(2));
  over.leave();
  EXPECT_FALSE(read_file(path_));
}

}  // namespace
}  // namespace tombolo::join
