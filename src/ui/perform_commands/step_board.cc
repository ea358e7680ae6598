#include "ui/perform_commands/step_board.h"

#include <unistd.h>

#include <utility>

#include "base/host_name.h"
#include "perform/update/learning_rate.h"
#include "predict/cost/price_plan.h"

namespace tombolo::perform_commands {
namespace {

struct Column {
  const char* name;
  std::optional<double> (*value)(const plan::Plan& plan, const observe::Progress& progress);
};

constexpr Column kColumns[] = {
    {"loss", [](const plan::Plan&, const observe::Progress& p) { return p.loss; }},
    {"gradient_norm",
     [](const plan::Plan&, const observe::Progress& p) { return p.gradient_norm; }},
    {"learning_rate",
     [](const plan::Plan& plan, const observe::Progress& p) -> std::optional<double> {
       if (!p.loss && !p.update_skipped) return std::nullopt;  // nothing is trained
       return update::learning_rate(plan.optimizer, plan.run.steps, p.step);
     }},
    {"update_skipped",
     [](const plan::Plan&, const observe::Progress& p) {
       return std::optional(p.update_skipped ? 1.0 : 0.0);
     }},
    {"tokens_per_s", [](const plan::Plan&, const observe::Progress& p) { return p.tokens_per_s; }},
    {"iteration_s", [](const plan::Plan&,
                       const observe::Progress& p) { return std::optional(p.iteration.value); }},
    {"mfu", [](const plan::Plan& plan,
               const observe::Progress& p) { return cost::mfu_of(plan, p.iteration); }},
    {"wan_wait_share", [](const plan::Plan&, const observe::Progress& p) {
       return std::optional(p.wan_wait_share);
     }}};
constexpr const char* kEvaluation = "evaluation_loss";

}  // namespace

StepBoard::StepBoard(board::Board board, const plan::Plan& plan, WallSeconds wall_seconds,
                     Note note)
    : board_(std::move(board)),
      plan_(&plan),
      wall_seconds_(std::move(wall_seconds)),
      note_(std::move(note)) {}

Result<StepBoard> StepBoard::open(const std::string& folder, const plan::Plan& plan,
                                  WallSeconds wall_seconds, Note note) {
  std::vector<std::string> columns;
  for (const Column& column : kColumns) columns.emplace_back(column.name);
  columns.emplace_back(kEvaluation);
  board::Board board =
      TRY(board::Board::open({.folder = folder,
                              .provenance = std::string(to_name(observe::provenance_of(plan))),
                              .columns = std::move(columns),
                              .host = host_name().empty() ? "host" : host_name(),
                              .process = getpid(),
                              .wall_time = wall_seconds()}));
  return StepBoard(std::move(board), plan, std::move(wall_seconds), std::move(note));
}

bool StepBoard::is_evaluated(int64_t step) const {
  const int64_t every = plan_->run.evaluate_every;
  return step == plan_->run.steps || (every > 0 && step % every == 0);
}

void StepBoard::show(const observe::Progress& progress) {
  if (waiting_) {
    const Waiting before = *std::exchange(waiting_, std::nullopt);
    const bool is_known = progress.evaluated_step == before.progress.step;
    write(before.progress, before.wall_s, is_known ? progress.evaluation_loss : std::nullopt);
  }
  const double wall_s = wall_seconds_();
  if (is_evaluated(progress.step)) {
    waiting_ = {progress, wall_s};
  } else {
    write(progress, wall_s, {});
  }
}

void StepBoard::finish(const observe::RunSummary* summary) {
  if (!waiting_) return;
  const Waiting last = *std::exchange(waiting_, std::nullopt);
  write(last.progress, last.wall_s, summary ? summary->evaluation_loss : std::nullopt);
}

void StepBoard::write(const observe::Progress& progress, double wall_s,
                      std::optional<double> evaluation) {
  if (!board_) return;
  std::vector<std::optional<double>> values;
  for (const Column& column : kColumns) values.push_back(column.value(*plan_, progress));
  values.push_back(evaluation);
  const Status written = board_->add(progress.step, wall_s, values);
  if (written) return;
  board_.reset();
  note_(written.error().text() + "\n  the run continues without its board");
}

}  // namespace tombolo::perform_commands
