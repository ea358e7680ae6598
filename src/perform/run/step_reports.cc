#include "perform/run/step_reports.h"

#include <algorithm>
#include <utility>

namespace tombolo::run {
namespace {

constexpr SimDuration kTellEvery{2'000'000'000};

}  // namespace

StepReports::StepReports(const plan::Plan& plan, observe::StepRecord& record,
                         int64_t first_iteration, Callbacks callbacks)
    : plan_(plan), record_(record), callbacks_(std::move(callbacks)) {
  begin(first_iteration, false);
}

void StepReports::begin(int64_t first_iteration, bool goes_on) {
  first_iteration_ = first_iteration;
  tracker_ = std::make_unique<observe::ProgressTracker>(plan_, first_iteration);
  if (!goes_on) return;
  // The last one again: take_past() says why.
  past_ = std::make_unique<observe::ProgressTracker>(plan_, std::max<int64_t>(record_.last(), 1));
}

// Replicas are compared at the steps to come.
void StepReports::take_past(int32_t rank, const stage::IterationReport& report) {
  if (!past_ || report.iteration < record_.last()) return;
  const auto progress = past_->add(rank, report);
  if (progress && *progress) record(**progress);
}

void StepReports::end_past() {
  if (!past_) return;
  for (const observe::Progress& progress : past_->without_the_rest()) record(progress);
  past_.reset();
}

Result<std::optional<observe::Progress>> StepReports::add(int32_t rank,
                                                          const stage::IterationReport& report) {
  return tracker_->add(rank, report);
}

void StepReports::add_evaluation(int32_t rank, const stage::Evaluation& evaluation) {
  if (past_) past_->add_evaluation(rank, evaluation);
  tracker_->add_evaluation(rank, evaluation);
}

void StepReports::record(const observe::Progress& progress) {
  if (callbacks_.on_progress) callbacks_.on_progress(progress);
  const Status recorded = record_.add(progress.step, progress.loss);
  if (recorded || !std::exchange(records_, false) || !callbacks_.on_note) return;
  callbacks_.on_note(recorded.error().text() +
                     "\n  training continues; if this launcher is killed, losses are missing");
}

std::optional<int64_t> StepReports::recorded_to_tell(SimTime now) {
  if (!records_ || now < told_at_ + kTellEvery) return std::nullopt;
  told_at_ = now;
  return record_.last() - 1;
}

}  // namespace tombolo::run
