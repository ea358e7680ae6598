#include "perform/runtime/exchange_thread.h"

#include <utility>

#include "base/check.h"
#include "spec/plan/gradient_groups.h"
#include "spec/schedule/schedule.h"

namespace tombolo::runtime {
namespace {

using action::ActionKind;

constexpr link::Tag kWake{.iteration = 0, .tensor = kWakeTensor};

}  // namespace

bool updates_by_group(const plan::Plan& plan) {
  const bool ties = plan.model.tied_embeddings && plan.stages.size() > 1;
  return plan.exchange_overlaps() && !plan.optimizer.clip_norm && !ties;
}

ExchangeThread::ExchangeThread(const plan::Plan& plan, const ExchangeOptions& options,
                               ParameterGroups& parameters, Messenger& messenger, Threads& threads,
                               ExchangeHooks hooks)
    : options_(options),
      position_(plan.ranks[options.rank].stage),
      plan_(plan),
      parameters_(parameters),
      messenger_(messenger),
      threads_(threads),
      hooks_(std::move(hooks)),
      replicas_(plan.replicas_of(position_)),
      changed_(threads.signal()) {
  for (const int32_t stage : schedule::shape_of(plan).stages_at(position_)) {
    groups_[stage] = plan::gradient_groups(plan, stage).size();
    groups_of_all_ += groups_[stage];
  }
  parameters_.watch(*this);
  thread_ = threads_.start([this] {
    const Status done = during(work(), "exchanging gradients");
    {
      const std::lock_guard lock(mutex_);
      over_ = true;
      status_ = done;
      changed_->notify_all();
    }
    if (!done && hooks_.failed) hooks_.failed(done.error());
  });
}

ExchangeThread::~ExchangeThread() {
  if (!thread_) return;
  {
    const std::lock_guard lock(mutex_);
    leaving_ = true;
  }
  wake();
  thread_.reset();
}

// --- the performing thread -----------------------------------------------------------------------

void ExchangeThread::complete(int32_t stage, int32_t group) {
  const Key key{iteration_, stage, group};
  if (options_.overlap) return hand_over(key, threads_.now());
  held_.push_back({key, {}});
}

void ExchangeThread::release(int32_t stage) {
  std::vector<HandedOver> others;
  for (const HandedOver& each : std::exchange(held_, {})) {
    if (each.key.stage == stage) {
      hand_over(each.key, threads_.now());
    } else {
      others.push_back(each);
    }
  }
  held_ = std::move(others);
}

void ExchangeThread::hand_over(const Key& key, SimTime since) {
  {
    const std::lock_guard lock(mutex_);
    const bool is_new = pending_.emplace(key.stage, key.group).second;
    CHECK(is_new, "group {} of stage {} is handed over in iteration {}, and is under way",
          key.group, key.stage, key.iteration);
    handed_over_.push_back({key, since});
  }
  wake();
}

// A link that is gone fails the wait that this would end.
void ExchangeThread::wake() { static_cast<void>(messenger_.send(options_.rank, kWake, {})); }

template <class Settled>
Status ExchangeThread::await(const Settled& settled) {
  std::unique_lock lock(mutex_);
  if (settled()) return {};
  const SimTime since = threads_.now();
  threads_.await(*changed_, lock, kNever, [&] { return settled() || over_; });
  waits_.push_back({since_origin(since), since_origin(threads_.now())});
  if (settled()) return {};
  if (!status_) return status_;
  return failed("the sums of gradients have ended before a group that is waited for");
}

Status ExchangeThread::await_ready(int32_t stage, int32_t group) {
  return await([&] { return !pending_.contains({stage, group}); });
}

Status ExchangeThread::await_stage(int32_t stage) {
  return await([&] {
    const auto first = pending_.lower_bound({stage, 0});
    return first == pending_.end() || first->first != stage;
  });
}

Status ExchangeThread::await_all() {
  return await([&] { return pending_.empty(); });
}

std::vector<trace::Interval> ExchangeThread::take_intervals() {
  const std::lock_guard lock(mutex_);
  return std::exchange(intervals_, {});
}

Status ExchangeThread::finish() {
  CHECK(thread_, "an exchange is finished a second time");
  TRY(await_all());
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  wake();
  thread_.reset();
  return status_;
}

// --- this thread ---------------------------------------------------------------------------------

Status ExchangeThread::work() {
  while (true) {
    TRY(begin_new());
    if (is_over()) return {};
    const auto came = TRY(messenger_.receive_any(awaited()));
    if (came.which > 0) TRY(advance(came.which - 1, came.message));
  }
}

bool ExchangeThread::is_over() {
  const std::lock_guard lock(mutex_);
  return leaving_ || (ending_ && handed_over_.empty() && under_way_.empty());
}

// In the order in which they were handed over, as far as copies of them may lie with the links. A
// rank with several stages takes all, for its replicas may hand them over in another order.
Status ExchangeThread::begin_new() {
  while (true) {
    std::unique_lock lock(mutex_);
    const bool is_full = groups_.size() == 1 && bytes_under_way_ >= kCopiesMax;
    if (leaving_ || handed_over_.empty() || is_full) return {};
    const HandedOver next = handed_over_.front();
    handed_over_.pop_front();
    lock.unlock();
    TRY(begin(next));
  }
}

Status ExchangeThread::begin(const HandedOver& group) {
  const auto& [iteration, stage, number] = group.key;
  const std::span<float> gradient = parameters_.gradient(stage, number);
  const link::Tag first{static_cast<uint64_t>(iteration), group_tensor(stage, number, 0)};
  const auto exchange = schedule::gradient_exchange(plan_, stage, std::ssize(gradient));
  const auto own = static_cast<size_t>(plan_.ranks[options_.rank].replica);
  const auto bytes = static_cast<int64_t>(gradient.size_bytes());
  UnderWay entry{group.since, bytes, GroupSum(exchange, replicas_, own, first, gradient)};
  GroupSum& sum = under_way_.emplace(group.key, std::move(entry)).first->second.sum;
  bytes_under_way_ += bytes;
  TRY(send(sum.begin()));
  return sum.done() ? settle(group.key) : Status{};
}

Status ExchangeThread::send(std::vector<GroupSum::Parcel> parcels) {
  for (GroupSum::Parcel& each : parcels)
    TRY(messenger_.send(each.to, each.tag, std::move(each.payload)));
  return {};
}

std::vector<Messenger::Awaited> ExchangeThread::awaited() const {
  std::vector<Messenger::Awaited> out = {{options_.rank, kWake}};
  for (const auto& [key, each] : under_way_) out.push_back(each.sum.wanted());
  return out;
}

Status ExchangeThread::advance(size_t place, const link::Received& message) {
  const auto at = std::next(under_way_.begin(), static_cast<ptrdiff_t>(place));
  TRY(send(TRY(at->second.sum.take(message))));
  return at->second.sum.done() ? settle(at->first) : Status{};
}

// The group is summed. Who waits for it hears so once it is updated.
Status ExchangeThread::settle(const Key& settled) {
  const Key key = settled;
  const auto node = under_way_.extract(key);
  bytes_under_way_ -= node.mapped().bytes;
  draw({.lane = trace::Lane::kCollective,
        .action = {ActionKind::kReduceGradients, key.stage, -1},
        .iteration = key.iteration,
        .start = node.mapped().since,
        .end = threads_.now(),
        .bytes = node.mapped().bytes});
  if (options_.updates) TRY(update(key));
  const std::lock_guard lock(mutex_);
  pending_.erase({key.stage, key.group});
  changed_->notify_all();
  return {};
}

Status ExchangeThread::update(const Key& key) {
  const auto& [iteration, stage, group] = key;
  if (updating_ < iteration) {
    updating_ = iteration;
    if (hooks_.before_update) TRY(hooks_.before_update(iteration - 1));
  }
  const SimTime start = threads_.now();
  TRY(parameters_.update_group(iteration, stage, group));
  draw({.lane = trace::Lane::kCompute,
        .action = {ActionKind::kUpdate, stage, -1},
        .iteration = iteration,
        .start = start,
        .end = threads_.now()});
  if (++updated_[iteration] < groups_of_all_) return {};
  updated_.erase(iteration);
  return hooks_.updated ? hooks_.updated(iteration) : Status{};
}

void ExchangeThread::draw(trace::Interval interval) {
  interval.rank = options_.rank;
  interval.start = since_origin(interval.start);
  interval.end = since_origin(interval.end);
  const std::lock_guard lock(mutex_);
  intervals_.push_back(interval);
}

}  // namespace tombolo::runtime
