#include "perform/stage/cell_relay.h"

#include <algorithm>
#include <cstdlib>

#include "base/check.h"

namespace tombolo::stage {
namespace {

using link::Cut;
using link::Hop;
using link::LinkShape;
using link::Passage;
using link::Payload;
using link::Received;
using link::Tag;

}  // namespace

std::vector<int32_t> members_towards(const plan::Plan& plan, int32_t rank, int32_t peer) {
  std::vector<int32_t> members;
  if (std::abs(plan.ranks[rank].stage - plan.ranks[peer].stage) != 1) return members;
  for (const int32_t replica : plan::sharers(plan, rank, peer)) {
    members.push_back(rank - plan.ranks[rank].replica + replica);
  }
  return members;
}

std::vector<Passage> passages_of(const plan::Plan& plan, const schedule::Schedule& schedule,
                                 int32_t rank) {
  CHECK(rank >= 0 && static_cast<size_t>(rank) < plan.ranks.size(), "rank {} of {} carries nothing",
        rank, plan.ranks.size());
  const int32_t stage = plan.ranks[rank].stage;
  const int32_t replica = plan.ranks[rank].replica;
  const schedule::PipelineShape shape = schedule::shape_of(plan);
  std::vector<Passage> passages;
  for (const schedule::LinkOrder& link : schedule.links) {
    const bool before = link.boundary + 1 == stage;  // the boundary lies before this rank's stage
    if (!before && link.boundary != stage) continue;
    const std::vector<int32_t> sharers = schedule::sharers_of(link, shape);
    if (!std::binary_search(sharers.begin(), sharers.end(), replica)) continue;
    Passage passage{.outgoing = link.gradients == before};
    for (const int32_t member : sharers) passage.members.push_back(plan.rank_of(stage, member));
    passage.across = plan.rank_of(stage + (before ? -1 : 1), replica);
    for (const schedule::Transfer& transfer : link.transfers) {
      const auto kind =
          link.gradients ? action::ActionKind::kSendGradient : action::ActionKind::kSendActivation;
      const int32_t sender = link.boundary + (link.gradients ? 1 : 0);
      const auto owner = std::lower_bound(sharers.begin(), sharers.end(), transfer.replica);
      passage.turns.push_back({static_cast<uint32_t>(owner - sharers.begin()),
                               kernels::pipeline_tensor({kind, sender, transfer.microbatch})});
    }
    passages.push_back(std::move(passage));
  }
  return passages;
}

LinkShape transfer_shape(const plan::Plan& plan, int32_t from, int32_t to, bool emulated_wan) {
  LinkShape shape = kernels::shape_between(plan, from, to, emulated_wan);
  if (!shape.rate) return shape;
  const std::vector<int32_t> members = members_towards(plan, from, to);
  if (members.empty()) return shape;
  shape.rate = *shape.rate * static_cast<double>(members.size());
  shape.delay = round_to_ns(plan::shared_channel(plan, from, to).latency);
  return shape;
}

CellMessenger::CellMessenger(const plan::Plan& plan, int32_t rank, kernels::Messenger& messenger)
    : plan_(plan), rank_(rank), messenger_(messenger) {
  const layout::Placement& own = plan.ranks[rank];
  const auto towards = [&](int32_t stage) {
    return members_towards(plan, rank, plan.rank_of(stage, own.replica));
  };
  if (own.stage > 0) before_ = towards(own.stage - 1);
  if (own.stage + 1 < static_cast<int32_t>(plan.stages.size())) after_ = towards(own.stage + 1);
}

std::span<const int32_t> CellMessenger::members(int32_t peer, const Tag& tag) const {
  const int32_t steps = plan_.ranks[peer].stage - plan_.ranks[rank_].stage;
  if (tag.tensor >= link::kOwnTensorMax || std::abs(steps) != 1) return {};
  return steps < 0 ? before_ : after_;
}

uint32_t CellMessenger::place(std::span<const int32_t> members) const {
  const auto at = std::lower_bound(members.begin(), members.end(), rank_);
  return static_cast<uint32_t>(at - members.begin());
}

Status CellMessenger::send(int32_t peer, Tag tag, Payload payload) {
  const std::span<const int32_t> members = this->members(peer, tag);
  if (members.empty()) return messenger_.send(peer, tag, std::move(payload));
  const Tag share = link::share_tag(Hop::kScatter, tag, place(members));
  const auto shares = static_cast<uint32_t>(members.size());
  for (uint32_t s = 0; s < shares; ++s) {
    const Cut part = link::cut(payload.size(), s, shares);
    const auto at = [&](uint64_t byte) { return payload.begin() + static_cast<ptrdiff_t>(byte); };
    TRY(messenger_.send(members[s], share, Payload(at(part.begin), at(part.end))));
  }
  return {};
}

Result<kernels::Messenger::Came> CellMessenger::receive_any(std::span<const Awaited> wanted) {
  const auto is_shared = [&](const Awaited& each) { return !members(each.peer, each.tag).empty(); };
  if (std::none_of(wanted.begin(), wanted.end(), is_shared)) return messenger_.receive_any(wanted);
  CHECK(wanted.size() == 1, "{} messages are awaited at once, some of them in shares",
        wanted.size());
  const Awaited& one = wanted.front();
  return Came{0, TRY(gather(members(one.peer, one.tag), one.tag))};
}

Result<Received> CellMessenger::gather(std::span<const int32_t> members, Tag tag) {
  const Tag share = link::share_tag(Hop::kGather, tag, place(members));
  link::Gather gather(static_cast<uint32_t>(members.size()));
  for (uint32_t s = 0; s < members.size(); ++s) {
    TRY(gather.add(s, TRY(messenger_.receive(members[s], share))));
  }
  return gather.take();
}

RelayThread::RelayThread(transport::Endpoint& endpoint, link::Relay relay,
                         std::function<void(const Error&)> on_failure, Threads& threads)
    : endpoint_(endpoint), relay_(std::move(relay)), on_failure_(std::move(on_failure)) {
  thread_ = threads.start([this] {
    status_ = work();
    if (!status_ && on_failure_) on_failure_(status_.error());
  });
}

Status RelayThread::finish() {
  CHECK(thread_, "a relay is awaited a second time");
  thread_.reset();
  return status_;
}

Status RelayThread::work() {
  const auto about_a_peer = [](Error error) {
    error.code = ErrorCode::kLostPeer;
    return std::move(error).during("relaying for the DP-cell");
  };
  while (true) {
    const std::vector<link::Relay::Wanted> wanted = relay_.wanted();
    if (wanted.empty()) return {};
    std::vector<transport::Endpoint::Awaited> awaited;
    for (const auto& each : wanted) awaited.push_back({each.from, each.tag});
    auto came = TRY(endpoint_.receive_any(awaited, kNever).map_error(about_a_peer));
    link::Relay::Parcel parcel = relay_.carry(wanted[came.which].passage, std::move(came.message));
    TRY(endpoint_.send(parcel.to, parcel.tag, std::move(parcel.payload), parcel.urgency)
            .map_error(about_a_peer));
  }
}

}  // namespace tombolo::stage
