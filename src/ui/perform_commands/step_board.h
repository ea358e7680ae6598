// What `tombolo train --board FOLDER` writes of each step (perform/board).
//
// A step that is followed by an evaluation is written once its result is known: with the next
// step or at the end of the run. If the folder cannot be written to any more, the run continues
// without its board.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "perform/board/board.h"
#include "perform/observe/progress_tracker.h"
#include "spec/plan/plan.h"

namespace tombolo::perform_commands {

class StepBoard {
 public:
  using WallSeconds = std::function<double()>;  // since 1970
  using Note = std::function<void(const std::string&)>;

  // `plan` outlives it. Unusable: board.h.
  static Result<StepBoard> open(const std::string& folder, const plan::Plan& plan,
                                WallSeconds wall_seconds, Note note);

  void show(const observe::Progress& progress);
  // Nothing: the run ended without an answer.
  void finish(const observe::RunSummary* summary);

 private:
  StepBoard(board::Board board, const plan::Plan& plan, WallSeconds wall_seconds, Note note);
  bool is_evaluated(int64_t step) const;
  void write(const observe::Progress& progress, double wall_s, std::optional<double> evaluation);

  struct Waiting {
    observe::Progress progress;
    double wall_s = 0;
  };
  std::optional<board::Board> board_;  // none: it could not be written to
  const plan::Plan* plan_;
  WallSeconds wall_seconds_;
  Note note_;
  std::optional<Waiting> waiting_;  // for its evaluation
};

}  // namespace tombolo::perform_commands
