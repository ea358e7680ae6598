#include "perform/run/neighbour_links.h"

#include <utility>

#include "perform/kernels/neighbours.h"
#include "spec/plan/rank_name.h"

namespace tombolo::run {
namespace {

constexpr SimDuration kCallMax{6'000'000'000};     // until a failed call is reported
constexpr SimDuration kSpliceMax{30'000'000'000};  // until a splice without the peer is reported
constexpr SimDuration kListenMax{200'000'000};     // for a call, between two looks at the orders
constexpr SimDuration kOrderMax{2'000'000'000};    // for an order, after a refusal

}  // namespace

NeighbourLinks::NeighbourLinks(Options options, transport::Endpoint& endpoint, Threads& clock)
    : options_(std::move(options)), endpoint_(endpoint), clock_(clock) {}

void NeighbourLinks::take(const join::Meet& order) {
  std::lock_guard lock(mutex_);
  orders_[order.peer] = order;
  changed_->notify_all();
}

void NeighbourLinks::stop() {
  std::lock_guard lock(mutex_);
  given_up_ = true;
  changed_->notify_all();
}

Status NeighbourLinks::link(const plan::Plan& plan, const std::set<int32_t>& peers) {
  std::map<int32_t, Status> links;
  std::vector<std::unique_ptr<Thread>> calls;
  for (const int32_t peer : peers) {
    calls.push_back(clock_.start([this, &plan, peer, &linked = links[peer]] {
      linked = link_to(plan, peer);
      std::lock_guard lock(mutex_);
      if (!linked) given_up_ = true;
    }));
  }
  calls.clear();
  for (auto& [peer, linked] : links) {
    if (linked) continue;
    return fail(std::move(linked.error()).during("linking to " + plan::rank_name(plan, peer)));
  }
  return {};
}

// A peer that is still loading answers calls, too, by its Endpoint. So a call without an answer has
// failed, and is not just early.
Status NeighbourLinks::link_to(const plan::Plan& plan, int32_t peer) {
  link::LinkShape shape = kernels::shape_between(plan, options_.rank, peer, options_.emulated_wan);
  if (options_.several_hosts) {
    shape.rate.reset();
    shape.delay = {};
  }
  const join::Meet first{peer, join::dialling_of(plan, options_.reach, options_.rank, peer),
                         options_.splice_port};
  while (true) {
    std::unique_lock lock(mutex_);
    const auto ordered = orders_.find(peer);
    const join::Meet how = ordered == orders_.end() ? first : ordered->second;
    lock.unlock();
    const bool spliced = how.dialling == join::Dialling::kSpliced;
    const bool called = calls(peer, how.dialling);
    const SimTime deadline = in(spliced ? kSpliceMax : called ? kCallMax : kListenMax);
    const Status linked = try_once(how, shape, deadline);
    if (linked) return {};
    lock.lock();
    if (given_up_) return linked;
    if (clock_.now() < deadline) {
      // Refused, and it would be refused again. But if both call each other, one of them (this rank
      // or the peer) has not yet received the order not to call: wait for it.
      const auto told = [&] {
        return orders_.contains(peer) && orders_[peer].dialling != how.dialling;
      };
      const bool is_told = clock_.await(*changed_, lock, in(kOrderMax), told);
      const bool crossed = linked.error().cause == ErrorCause::kCrossingCalls;
      if (!is_told && (given_up_ || !crossed)) return linked;
      continue;
    }
    lock.unlock();
    if (called || spliced)
      TRY(options_.report(join::Unreached{peer, how.dialling, linked.error().message}));
  }
}

Status NeighbourLinks::try_once(const join::Meet& how, const link::LinkShape& shape,
                                SimTime deadline) {
  const int32_t peer = how.peer;
  if (how.dialling == join::Dialling::kSpliced) {
    return endpoint_.meet(peer, options_.launcher.host, static_cast<uint16_t>(how.splice_port),
                          shape, deadline);
  }
  if (!calls(peer, how.dialling)) return endpoint_.await_peer(peer, shape, deadline);
  // It may have called before it was told not to.
  if (endpoint_.await_peer(peer, shape, clock_.now())) return {};
  const transport::Address at =
      TRY(transport::parse_address(options_.addresses[static_cast<size_t>(peer)]));
  return endpoint_.connect(peer, at.host, at.port, shape, deadline);
}

}  // namespace tombolo::run
