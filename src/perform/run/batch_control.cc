#include "perform/run/batch_control.h"

#include <utility>

#include "base/check.h"
#include "spec/plan/adaptive_batch.h"
#include "spec/plan/rank_name.h"
#include "steer/tune/decision_records.h"

namespace tombolo::run {

BatchControl::BatchControl(const plan::Plan& plan, std::string file, bool goes_on, int64_t window)
    : plan_(&plan),
      history_(std::move(file)),
      window_(window),
      microbatches_(plan::microbatches_of_all(plan)) {
  if (!is_on()) return;
  if (!goes_on) {
    history_.remove_file();
    return;
  }
  history_.take_over([&](const tune::BatchDecision& newest) {
    return plan::with_microbatches(*plan_, newest.microbatches).has_value();
  });
  if (!history_.newest().empty()) microbatches_ = history_.newest().back().microbatches;
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
  history_.begin_epoch();
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
  Decided out{.verdict = {order_, answer.in_time}, .decision = {}};
  if (!answer.unusable.empty()) {
    out.refused = fmt::format(
        "{} cannot use microbatches {} from iteration {} on: {}\n  training continues with {} "
        "until "
        "the next epoch",
        plan::rank_name(*plan_, rank), plan::to_text(proposal_->microbatches),
        proposal_->first_iteration, answer.unusable, plan::to_text(microbatches_));
    controller_.reset();
  }
  if (!answer.in_time) return std::optional(std::move(out));
  microbatches_ = proposal_->microbatches;
  history_.keep(*proposal_);
  out.decision = std::exchange(proposal_, std::nullopt);
  return std::optional(std::move(out));
}

void BatchControl::add_records(std::vector<trace::Record>& records) const {
  tune::add_decisions(history_.of_epoch(), records);
}

}  // namespace tombolo::run
