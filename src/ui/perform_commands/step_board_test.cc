// Rows of steps, their evaluations with them.
#include "ui/perform_commands/step_board.h"

#include <gmock/gmock.h>

#include <filesystem>

#include "base/csv.h"
#include "base/file.h"
#include "support/folder_test.h"
#include "support/test_plan.h"

namespace tombolo::perform_commands {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class StepBoardTest : public FolderTest {
 protected:
  void SetUp() override {
    plan_ = make_test_plan({.stages = 2, .steps = 5});
    plan_.run.evaluate_every = 2;
  }
  StepBoard open() {
    auto board = StepBoard::open(
        at("board"), plan_, [this] { return wall_s_++; },
        [this](const std::string& note) { notes_.push_back(note); });
    CHECK(board, "{}", board.error().text());
    return std::move(*board);
  }
  static observe::Progress step(int64_t step, int64_t evaluated = 0, double evaluation = 0) {
    observe::Progress out{.step = step, .loss = 5.0, .evaluated_step = evaluated};
    out.iteration = Seconds{0.5};
    out.tokens_per_s = 4;
    out.wan_wait_share = 0.25;
    if (evaluated > 0) out.evaluation_loss = evaluation;
    return out;
  }
  std::vector<std::string> rows(const char* column) const {
    std::vector<std::string> out;
    const auto table = parse_csv(*read_file(at("board/steps.csv")), "steps.csv");
    CHECK(table, "{}", table.error().text());
    for (const CsvRow& row : *table) {
      out.push_back(*row.text("step") + ":" + (row.has(column) ? *row.text(column) : ""));
    }
    return out;
  }

  plan::Plan plan_;
  double wall_s_ = 1763900000;
  std::vector<std::string> notes_;
};

TEST_F(StepBoardTest, AnEvaluationStandsBesideTheStepThatItFollows) {
  StepBoard board = open();
  board.show(step(1));
  board.show(step(2));
  EXPECT_THAT(rows("loss"), ElementsAre("1:5")) << "the second waits for its evaluation";
  board.show(step(3, 2, 4.5));
  board.show(step(4, 2, 4.5));
  board.show(step(5, 2, 4.5));  // that of step 4 is lost, as where a rank was
  const observe::RunSummary summary{.evaluation_loss = 4.25};
  board.finish(&summary);
  board.finish(&summary);
  EXPECT_THAT(rows("evaluation_loss"), ElementsAre("1:", "2:4.5", "3:", "4:", "5:4.25"));
  EXPECT_THAT(rows("wan_wait_share"),
              ElementsAre("1:0.25", "2:0.25", "3:0.25", "4:0.25", "5:0.25"));
  EXPECT_THAT(rows("mfu"), ElementsAre("1:", "2:", "3:", "4:", "5:")) << "imagined stage times";
  EXPECT_EQ(rows("time").at(1), "2:1763900002.000") << "when it was done, not when it was written";
}

TEST_F(StepBoardTest, ARunThatEndsEarlyKeepsItsLastStep) {
  StepBoard board = open();
  board.show(step(1));
  board.show(step(2));
  board.finish(nullptr);
  EXPECT_THAT(rows("evaluation_loss"), ElementsAre("1:", "2:"));
}

TEST_F(StepBoardTest, AFolderThatIsGoneCostsTheBoardAlone) {
  StepBoard board = open();
  std::filesystem::remove_all(at("board"));
  board.show(step(1));
  board.show(step(3));
  ASSERT_EQ(notes_.size(), 1u);
  EXPECT_THAT(notes_[0], HasSubstr("the run continues without its board"));
}

}  // namespace
}  // namespace tombolo::perform_commands
