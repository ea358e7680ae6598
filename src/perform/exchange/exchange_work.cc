// What the thread itself does: begins groups, receives, updates (exchange_thread.cc has what other
// threads call).
#include <utility>

#include "base/check.h"
#include "perform/exchange/exchange_thread.h"
#include "spec/schedule/local_steps.h"
#include "spec/schedule/sparse_exchange.h"

namespace tombolo::exchange {
namespace {

using action::ActionKind;

}  // namespace

Status ExchangeThread::work() {
  while (true) {
    TRY(make_updates());
    TRY(begin_new());
    if (is_over()) return {};
    const auto came = TRY(messenger_.receive_any(awaited()));
    if (came.which > 0) TRY(advance(came.which - 1, came.message));
  }
}

ExchangeThread::Due ExchangeThread::due(const Key& key, bool outer) {
  return {key.iteration, exchange_.is_first_come() ? ++turns_ : 0, key, outer};
}

bool ExchangeThread::is_over() {
  const std::lock_guard lock(mutex_);
  return leaving_ || (ending_ && handed_over_.empty() && under_way_.empty() && merged_.empty());
}

// Begins groups in the order in which they were handed over, while the links hold less than
// kCopiesMax of copies. A rank with several stages begins all, because its replicas may hand them
// over in another order.
Status ExchangeThread::begin_new() {
  while (true) {
    std::unique_lock lock(mutex_);
    const bool is_full = stages_ == 1 && bytes_under_way_ >= kCopiesMax;
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
  const link::Tag first{static_cast<uint64_t>(iteration), kernels::group_tensor(stage, number, 0)};
  const auto exchange = schedule::gradient_exchange(plan_, stage, std::ssize(gradient), number);
  const auto own = static_cast<size_t>(plan_.ranks[options_.rank].replica);
  const auto bytes = static_cast<int64_t>(gradient.size_bytes());
  if (exchange_.is_sparse()) TRY(before(group.key));
  UnderWay entry{.key = group.key,
                 .since = group.since,
                 .bytes = bytes,
                 .copied = bytes,
                 .updates = sparse_updates(group.key, gradient),
                 .outer = nullptr,
                 .sum = nullptr};
  entry.sum = std::make_unique<GroupSum>(
      exchange, replicas_, own, first, gradient, entry.updates.get(), parameters_.bytes_of_number(),
      plan::element_bytes(plan_.training.precision) / plan::gradient_bytes(plan_));
  const Due due = this->due(group.key);
  UnderWay& placed = under_way_.emplace(due, std::move(entry)).first->second;
  bytes_under_way_ += bytes;
  TRY(send(TRY(placed.sum->begin())));
  note_taken(group.key, placed);
  return placed.sum->done() ? settle(due) : Status{};
}

std::unique_ptr<SparseUpdates> ExchangeThread::sparse_updates(const Key& key,
                                                              std::span<const float> gradient) {
  if (!exchange_.is_sparse()) return nullptr;
  const auto role = schedule::sparse_role(plan_, options_.rank, key.stage, key.group);
  const SparseUpdates::Options options{
      .datacenters = static_cast<size_t>(role.datacenters),
      .own = static_cast<size_t>(role.datacenter),
      .iteration = key.iteration,
      .exchange = with_density(exchange_, density_of(key.iteration))};
  const std::span<float> residual =
      role.leads ? parameters_.residual(key.stage, key.group) : std::span<float>{};
  return std::make_unique<SparseUpdates>(options, gradient, residual, *compressor_);
}

// Once a sparse update is made its gradient is not needed any more, and may change. The blocks that
// are still with the links are small and do not count as copies.
void ExchangeThread::note_taken(const Key& key, UnderWay& entry) {
  if (!entry.updates || entry.copied == 0 || !entry.updates->is_taken()) return;
  bytes_under_way_ -= std::exchange(entry.copied, 0);
  const std::lock_guard lock(mutex_);
  versions_.take(key);
  changed_->notify_all();
}

Status ExchangeThread::send(std::vector<GroupSum::Parcel> parcels) {
  for (GroupSum::Parcel& each : parcels)
    TRY(messenger_.send(each.to, each.tag, std::move(each.payload)));
  return {};
}

std::vector<kernels::Messenger::Awaited> ExchangeThread::awaited() const {
  std::vector<kernels::Messenger::Awaited> out = {{options_.rank, kWake}};
  for (const auto& [key, each] : under_way_) out.push_back(each.sum->wanted());
  return out;
}

Status ExchangeThread::advance(size_t place, const link::Received& message) {
  const auto at = std::next(under_way_.begin(), static_cast<ptrdiff_t>(place));
  const int32_t peer = at->second.sum->wanted().peer;
  draw_message(at->second, peer, message);
  note_arrival(peer, message);
  TRY(send(TRY(at->second.sum->take(message))));
  note_taken(at->second.key, at->second);
  return at->second.sum->done() ? settle(at->first) : Status{};
}

// The group is summed, or all its updates have arrived. Threads that wait for it are woken once it
// is updated.
Status ExchangeThread::settle(const Due& due) {
  const auto node = under_way_.extract(Due{due});
  const UnderWay& group = node.mapped();
  const Key key = group.key;
  bytes_under_way_ -= group.copied;
  if (group.outer) return settle_outer(group);
  draw({.lane = trace::Lane::kCollective,
        .rank = options_.rank,
        .action = {ActionKind::kReduceGradients, key.stage, -1},
        .iteration = key.iteration,
        .start = group.since,
        .end = threads_.now(),
        .bytes = bytes_of_group(key.stage, key.group),
        .part = key.group});
  if (group.updates) {
    merged_.emplace(node.key(), group.updates->merged());
    return make_updates();
  }
  if (options_.updates) {
    TRY(before(key));
    return update(key, nullptr);
  }
  end_update(key);
  return {};
}

// Makes the updates that have arrived and are not made yet, of the groups that no pass uses.
Status ExchangeThread::make_updates() {
  for (auto at = merged_.begin(); at != merged_.end();) {
    {
      const std::lock_guard lock(mutex_);
      if (!versions_.may_update(at->first.key)) {
        ++at;
        continue;
      }
      versions_.begin_update(at->first.key);
    }
    TRY(update(at->first.key, &at->second));
    at = merged_.erase(at);
  }
  return {};
}

Status ExchangeThread::before(const Key& key) {
  if (updating_ >= key.iteration) return {};
  updating_ = key.iteration;
  return hooks_.before_update ? hooks_.before_update(key.iteration - 1) : Status{};
}

Status ExchangeThread::update(const Key& key, const compress::Merged* sparse) {
  const auto& [iteration, stage, group] = key;
  const SimTime start = threads_.now();
  if (sparse) {
    TRY(parameters_.update_group_sparsely(iteration, stage, group,
                                          {sparse->blocks.ids, sparse->blocks.values}));
  } else {
    TRY(parameters_.update_group(iteration, stage, group));
  }
  draw({.lane = trace::Lane::kCompute,
        .rank = options_.rank,
        .action = {ActionKind::kUpdate, stage, -1},
        .iteration = iteration,
        .start = start,
        .end = threads_.now(),
        .part = group});
  return outer_book_ ? after_update(key) : finish_update(key);
}

// After the inner step of a group.
Status ExchangeThread::after_update(const Key& key) {
  if (outer_book_->begins(key)) TRY(begin_outer(key));
  if (!outer_book_->ends(key)) return finish_update(key);
  if (outer_book_->has_arrived(key)) {
    TRY(outer_book_->end(key));
    return finish_update(key);
  }
  held_up_.insert(key);
  return {};
}

Status ExchangeThread::begin_outer(const Key& key) {
  const auto& [iteration, stage, number] = key;
  {
    const std::lock_guard lock(mutex_);
    ++outer_under_way_;
  }
  const std::span<float> anchor = parameters_.outer_state(stage, number).anchor;
  const link::Tag first{static_cast<uint64_t>(iteration),
                        kernels::group_tensor(stage, number, kernels::kRoundsMax / 2)};
  UnderWay entry{.key = key,
                 .since = threads_.now(),
                 .bytes = static_cast<int64_t>(anchor.size_bytes()),
                 .copied = 0,
                 .updates = nullptr,
                 .outer = outer_book_->begin(key),
                 .sum = nullptr};
  entry.sum = std::make_unique<GroupSum>(
      schedule::outer_exchange(plan_, stage, std::ssize(anchor), number), replicas_,
      static_cast<size_t>(plan_.ranks[options_.rank].replica), first, anchor, entry.outer.get());
  const Due due = this->due(outer_book_->end_of(key), true);
  UnderWay& placed = under_way_.emplace(due, std::move(entry)).first->second;
  TRY(send(TRY(placed.sum->begin())));
  return placed.sum->done() ? settle(due) : Status{};
}

// All updates of an outer step have arrived.
Status ExchangeThread::settle_outer(const UnderWay& step) {
  outer_book_->arrive(step.key, *step.outer);
  draw({.lane = trace::Lane::kCollective,
        .rank = options_.rank,
        .action = {ActionKind::kReduceGradients, step.key.stage, -1},
        .iteration = step.key.iteration,
        .start = step.since,
        .end = threads_.now(),
        .bytes = bytes_of_group(step.key.stage, step.key.group),
        .part = step.key.group});
  const Key end = outer_book_->end_of(step.key);
  const bool waits = held_up_.erase(end) > 0;
  if (waits) TRY(outer_book_->end(end));
  {
    const std::lock_guard lock(mutex_);
    --outer_under_way_;
    changed_->notify_all();
  }
  return waits ? finish_update(end) : Status{};
}

Status ExchangeThread::finish_update(const Key& key) {
  if (versions_.is_last() && hooks_.updated) TRY(hooks_.updated(key.iteration));
  end_update(key);
  return {};
}

void ExchangeThread::end_update(const Key& key) {
  const std::lock_guard lock(mutex_);
  versions_.end_update(key);
  changed_->notify_all();
}

int64_t ExchangeThread::bytes_of_group(int32_t stage, int32_t group) const {
  return group_bytes_.at(stage).at(static_cast<size_t>(group));
}

// A message is drawn by its receiver, as those of pipelines are.
void ExchangeThread::draw_message(const UnderWay& group, int32_t from,
                                  const link::Received& message) {
  draw({.lane = trace::Lane::kLink,
        .rank = from,
        .peer = options_.rank,
        .action = {ActionKind::kReduceGradients, group.key.stage, -1},
        .iteration = group.key.iteration,
        .start = options_.one_clock ? message.sent_start : message.delivered,
        .end = message.delivered,
        .bytes = static_cast<int64_t>(message.payload.size()),
        .part = group.key.group});
}

void ExchangeThread::note_arrival(int32_t from, const link::Received& message) {
  if (plan_.ranks[from].datacenter == plan_.ranks[options_.rank].datacenter) return;
  const std::lock_guard lock(mutex_);
  arrivals_.add(std::ssize(message.payload), message.begun, message.delivered);
}

void ExchangeThread::draw(trace::Interval interval) {
  interval.start = since_origin(interval.start);
  interval.end = since_origin(interval.end);
  const std::lock_guard lock(mutex_);
  intervals_.push_back(interval);
}

}  // namespace tombolo::exchange
