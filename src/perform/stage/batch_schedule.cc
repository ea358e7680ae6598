#include "perform/stage/batch_schedule.h"

#include <algorithm>
#include <span>
#include <utility>

#include "spec/plan/adaptive_batch.h"

namespace tombolo::stage {

// Such a Plan's pipelines are ordered each for itself (plan::check_adaptive_batch).
Result<Division> divide(const plan::Plan& plan, int32_t rank, const std::vector<int64_t>& each) {
  plan::Plan divided = TRY(plan::with_microbatches(plan, each));
  const layout::Placement& at = plan.ranks[static_cast<size_t>(rank)];
  schedule::Schedule schedule =
      TRY(schedule::build(divided, std::span<const int32_t>(&at.replica, 1)));
  const size_t positions = plan.ranks.size() / static_cast<size_t>(plan.replicas());
  const size_t built = schedule.ranks.size() / positions;
  return Division{std::move(divided),
                  std::move(schedule.ranks[static_cast<size_t>(at.stage) * built])};
}

void BatchSchedule::check_with(Check check) {
  const std::lock_guard lock(mutex_);
  check_ = std::move(check);
}

Result<BatchSchedule::Answer> BatchSchedule::ask(int64_t order, int64_t first_iteration,
                                                 std::vector<int64_t> microbatches) {
  std::unique_lock lock(mutex_);
  if (asked_)
    return failed(fmt::format("order {} of the batch came before order {} was decided", order,
                              asked_->order));
  const Check check = check_;
  lock.unlock();  // begin() does not wait for the check
  const Status usable = check ? check(microbatches) : Status();
  lock.lock();
  const bool in_time = usable && begun_ < first_iteration;
  asked_ = {order, first_iteration, in_time, std::move(microbatches)};
  return Answer{in_time, usable ? "" : usable.error().text()};
}

Status BatchSchedule::decide(int64_t order, bool holds) {
  const std::lock_guard lock(mutex_);
  if (!asked_ || asked_->order != order)
    return failed(fmt::format("order {} of the batch was decided and not asked", order));
  const Asked asked = *std::exchange(asked_, std::nullopt);
  if (holds && !asked.in_time)
    return failed(fmt::format(
        "order {} of the batch holds, and this rank was too late or could not use it", order));
  if (holds) from_[asked.first_iteration] = asked.microbatches;
  changed_->notify_all();
  return {};
}

void BatchSchedule::stop(const Error& error) {
  const std::lock_guard lock(mutex_);
  stopped_ = error;
  changed_->notify_all();
}

Result<std::optional<std::vector<int64_t>>> BatchSchedule::begin(int64_t iteration,
                                                                 kernels::Activity* activity) {
  std::unique_lock lock(mutex_);
  const auto is_open = [&] {
    return asked_ && asked_->in_time && asked_->first_iteration <= iteration;
  };
  if (is_open()) {
    const kernels::Activity::Wait wait(activity);
    threads_.await(*changed_, lock, kNever, [&] { return stopped_ || !is_open(); });
    if (is_open()) return fail(*stopped_);
  }
  begun_ = std::max(begun_, iteration);
  const auto end = from_.upper_bound(iteration);
  if (end == from_.begin()) return std::optional<std::vector<int64_t>>();
  std::optional<std::vector<int64_t>> newest = std::prev(end)->second;
  from_.erase(from_.begin(), end);
  return newest;
}

}  // namespace tombolo::stage
