#include "perform/run/batch_control.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "perform/run/kept_change.h"
#include "spec/plan/adaptive_batch.h"
#include "steer/tune/decision_records.h"

namespace tombolo::observe {

template <class Archive>
void describe(Archive& a, BatchChange& change) {
  a.required("first_iteration", change.first_iteration);
  a.required("before", change.before);
  a.required("microbatches", change.microbatches);
  a.required("reason", change.reason);
}

}  // namespace tombolo::observe

namespace tombolo::run {
namespace {

tune::BatchDecision batch_decision(const observe::BatchChange& change) {
  return {.first_iteration = change.first_iteration,
          .before = change.before,
          .microbatches = change.microbatches,
          .reason = change.reason};
}

}  // namespace

BatchControl::BatchControl(const plan::Plan& plan, std::string file, bool goes_on, int64_t window)
    : plan_(&plan),
      file_(std::move(file)),
      window_(window),
      microbatches_(plan::microbatches_of_all(plan)) {
  if (!is_on()) return;
  if (!goes_on) {
    remove_file();
    return;
  }
  auto newest = read_change<observe::BatchChange>(file_);
  if (newest && plan::with_microbatches(plan, newest->microbatches)) keep(std::move(*newest));
}

void BatchControl::keep(observe::BatchChange change) {
  microbatches_ = change.microbatches;
  ++changed_;
  if (changes_.size() == kChangesKept) changes_.erase(changes_.begin());
  changes_.push_back(std::move(change));
}

plan::Plan BatchControl::begin() {
  if (!is_on()) return *plan_;
  tune::BatchController::Options options = tune::batch_options(*plan_, microbatches_);
  options.window = window_;
  controller_.emplace(std::move(options));
  state_ = State::kSteady;
  order_ = 0;
  proposal_.reset();
  in_time_.clear();
  changed_before_ = changed_;
  auto divided = plan::with_microbatches(*plan_, microbatches_);
  CHECK(divided, "{}", divided.error().text());
  return std::move(*divided);
}

std::optional<join::BatchOrder> BatchControl::add(int32_t rank,
                                                  const stage::IterationReport& report) {
  if (!controller_ || !report.batch) return std::nullopt;
  auto proposal = controller_->add(rank, report.iteration,
                                   {.microbatches = report.batch->microbatches,
                                    .computing = seconds(report.batch->computing),
                                    .passes = seconds(report.batch->passes)});
  if (!proposal) return std::nullopt;
  CHECK(state_ == State::kSteady, "order {} is not decided", order_);
  if (proposal->first_iteration > plan_->run.steps) return std::nullopt;
  state_ = State::kAsked;
  proposal_ = std::move(proposal);
  in_time_.clear();
  return join::BatchOrder{++order_, proposal_->first_iteration, proposal_->microbatches};
}

Result<std::optional<BatchControl::Decided>> BatchControl::add(int32_t rank,
                                                               const join::BatchAnswer& answer) {
  if (answer.order > order_)
    return failed(fmt::format("order {} of the batch was answered and not given", answer.order));
  if (state_ != State::kAsked || answer.order < order_) return std::optional<Decided>();
  if (answer.in_time) {
    in_time_.insert(rank);
    if (in_time_.size() < plan_->ranks.size()) return std::optional<Decided>();
  }
  state_ = State::kSteady;
  controller_->settle(answer.in_time);
  Decided out{.verdict = {order_, answer.in_time}, .change = {}};
  if (!answer.in_time) return std::optional(std::move(out));
  keep({.first_iteration = proposal_->first_iteration,
        .before = proposal_->before,
        .microbatches = proposal_->microbatches,
        .reason = proposal_->reason});
  keep_change(file_, changes_.back());
  out.change = changes_.back();
  return std::optional(std::move(out));
}

void BatchControl::remove_file() const { forget_change(file_); }

void BatchControl::add_records(std::vector<trace::Record>& records) const {
  const auto newest = std::min(changed_ - changed_before_, std::ssize(changes_));
  std::vector<tune::BatchDecision> decisions;
  for (auto change = changes_.end() - newest; change != changes_.end(); ++change)
    decisions.push_back(batch_decision(*change));
  tune::add_decisions(decisions, records);
}

std::string to_line(const observe::BatchChange& change) {
  return tune::to_line(batch_decision(change));
}

}  // namespace tombolo::run
