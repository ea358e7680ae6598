#include "perform/exchange/exchange_thread.h"

#include <cmath>
#include <utility>

#include "base/check.h"
#include "spec/schedule/exchange_graph.h"
#include "spec/schedule/schedule.h"

namespace tombolo::exchange {

ExchangeThread::ExchangeThread(const plan::Plan& plan, const ExchangeOptions& options,
                               kernels::ParameterGroups& parameters, kernels::Messenger& messenger,
                               Threads& threads, ExchangeHooks hooks)
    : options_(options),
      position_(plan.ranks[options.rank].stage),
      plan_(plan),
      parameters_(parameters),
      messenger_(messenger),
      threads_(threads),
      hooks_(std::move(hooks)),
      replicas_(plan.replicas_of(position_)),
      exchange_(plan.exchange.value_or(plan::Exchange{})),
      changed_(threads.signal()),
      versions_({.first_iteration = options.first_iteration,
                 .staleness = exchange_.staleness_in_use(),
                 .fixed = exchange_.is_fixed()}) {
  if (exchange_.is_local()) {
    CHECK(options.updates, "inner steps that are not made group by group");
    outer_book_.emplace(plan, options.rank, options.first_iteration, parameters);
  }
  for (const int32_t stage : schedule::shape_of(plan).stages_at(position_)) {
    for (const auto& group : schedule::detail::exchange_of(plan, stage, 0).groups) {
      const auto number = static_cast<int32_t>(group_bytes_[stage].size());
      group_bytes_[stage].push_back(std::llround(real(group.bytes) / plan.run.byte_scale));
      versions_.add(stage, number);
      if (outer_book_) outer_book_->add(stage, number);
    }
    ++stages_;
  }
  if (exchange_.is_sparse()) {
    CHECK(options.updates, "sparse updates that are not made group by group");
    compressor_.emplace(compress_options(exchange_));
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

void ExchangeThread::begin_iteration(int64_t iteration) {
  iteration_ = iteration;
  const auto ordered = options_.density ? options_.density->at(iteration) : std::nullopt;
  const std::lock_guard lock(mutex_);
  // With staleness 1 updates of the iteration before may not have begun.
  densities_.erase(densities_.begin(), densities_.lower_bound(iteration - 2));
  densities_[iteration] = ordered.value_or(exchange_.density_in_use());
}

void ExchangeThread::complete(int32_t stage, int32_t group) {
  const Key key{iteration_, stage, group};
  note_border(group, threads_.now());
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
    versions_.complete(key);
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
  const kernels::Activity::Wait wait(options_.activity, kernels::Activity::For::kExchange);
  threads_.await(*changed_, lock, kNever, [&] { return settled() || over_; });
  waits_.push_back({since_origin(since), since_origin(threads_.now())});
  if (settled()) return {};
  if (!status_) return status_;
  return failed("the gradient all-reduces have ended before a group that is waited for");
}

Status ExchangeThread::await_ready(int32_t stage, int32_t group) {
  const SimTime reached = threads_.now();
  TRY(await([&] { return versions_.try_use(stage, group, iteration_); }));
  note_border(group, reached);
  return {};
}

// Kernels may ask for a group again and again.
void ExchangeThread::note_border(int32_t group, SimTime reached) {
  if (!borders_.empty() && borders_.back().group == group) return;
  borders_.push_back({group, since_origin(reached), since_origin(threads_.now())});
}

Status ExchangeThread::await_stage(int32_t stage) {
  return await([&] { return versions_.is_settled(stage); });
}

Status ExchangeThread::await_all() {
  const auto drain = [&](bool on) {
    const std::lock_guard lock(mutex_);
    versions_.drain(on);
  };
  if (exchange_.staleness_in_use() > 0) {
    drain(true);
    wake();
  }
  const Status settled = await([&] { return versions_.is_settled(); });
  drain(false);
  return settled;
}

Status ExchangeThread::await_arrivals() {
  TRY(await_all());
  return await([&] { return outer_under_way_ == 0; });
}

Status ExchangeThread::await_taken(int32_t stage) {
  if (!exchange_.is_sparse()) return {};
  return await([&] { return versions_.is_taken(stage); });
}

GroupVersions::Freshness ExchangeThread::take_freshness() {
  const std::lock_guard lock(mutex_);
  return versions_.take_freshness();
}

Arrivals::Sum ExchangeThread::take_arrivals() {
  const std::lock_guard lock(mutex_);
  return arrivals_.take();
}

double ExchangeThread::density_of(int64_t iteration) {
  const std::lock_guard lock(mutex_);
  const auto found = densities_.find(iteration);
  CHECK(found != densities_.end(), "iteration {} has not begun", iteration);
  return found->second;
}

std::vector<trace::Interval> ExchangeThread::take_intervals() {
  const std::lock_guard lock(mutex_);
  return std::exchange(intervals_, {});
}

Status ExchangeThread::finish() {
  CHECK(thread_, "an exchange is finished a second time");
  TRY(await_arrivals());
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  wake();
  thread_.reset();
  return status_;
}

}  // namespace tombolo::exchange
