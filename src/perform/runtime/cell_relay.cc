#include "perform/runtime/cell_relay.h"

#include <algorithm>

#include "base/check.h"

namespace tombolo::runtime {
namespace {

using link::Cut;
using link::Hop;
using link::LinkShape;
using link::Passage;
using link::Payload;
using link::Received;
using link::Tag;

}  // namespace

std::vector<int32_t> cell_of(const plan::Plan& plan, int32_t rank) {
  CHECK(rank >= 0 && static_cast<size_t>(rank) < plan.ranks.size(), "rank {} of {} has no cell",
        rank, plan.ranks.size());
  const auto cell = static_cast<int32_t>(plan.parallelism.pipelines_per_cell());
  const int32_t first = rank - plan.ranks[rank].replica % cell;
  std::vector<int32_t> out;
  for (int32_t i = 0; i < cell; ++i) out.push_back(first + i);
  return out;
}

std::vector<Passage> passages_of(const plan::Plan& plan, const schedule::Schedule& schedule,
                                 int32_t rank) {
  const std::vector<int32_t> members = cell_of(plan, rank);
  const int32_t stage = plan.ranks[rank].stage;
  const int32_t replica = plan.ranks[rank].replica;
  const auto cell = static_cast<int32_t>(plan.parallelism.pipelines_per_cell());
  std::vector<Passage> passages;
  for (const schedule::LinkOrder& link : schedule.links) {
    const bool before = link.boundary + 1 == stage;  // the boundary lies before this rank's stage
    if ((!before && link.boundary != stage) || link.cell != replica / cell) continue;
    Passage passage{.outgoing = link.gradients == before, .members = members};
    passage.across = plan.rank_of(stage + (before ? -1 : 1), replica);
    for (const schedule::Transfer& transfer : link.transfers) {
      const auto kind =
          link.gradients ? action::ActionKind::kSendGradient : action::ActionKind::kSendActivation;
      const int32_t sender = link.boundary + (link.gradients ? 1 : 0);
      passage.turns.push_back({static_cast<uint32_t>(transfer.replica % cell),
                               pipeline_tensor({kind, sender, transfer.microbatch})});
    }
    passages.push_back(std::move(passage));
  }
  return passages;
}

bool shares_transfer(const plan::Plan& plan, int32_t from, int32_t to) {
  if (plan.ranks[from].stage == plan.ranks[to].stage) return false;
  return schedule::shape_of(plan).shares(std::min(plan.ranks[from].stage, plan.ranks[to].stage));
}

LinkShape transfer_shape(const plan::Plan& plan, int32_t from, int32_t to, bool emulated_wan) {
  LinkShape shape = shape_between(plan, from, to, emulated_wan);
  if (!shape.rate || !shares_transfer(plan, from, to)) return shape;
  shape.rate = *shape.rate * static_cast<double>(plan.parallelism.pipelines_per_cell());
  shape.delay = round_to_ns(plan::shared_channel(plan, from, to).latency);
  return shape;
}

CellMessenger::CellMessenger(const plan::Plan& plan, int32_t rank, Messenger& messenger)
    : plan_(plan), rank_(rank), messenger_(messenger), members_(cell_of(plan, rank)) {}

bool CellMessenger::shares(int32_t peer, const Tag& tag) const {
  return tag.tensor < link::kOwnTensorMax && shares_transfer(plan_, rank_, peer);
}

uint32_t CellMessenger::place(int32_t rank) const {
  return static_cast<uint32_t>(plan_.ranks[rank].replica) % static_cast<uint32_t>(members_.size());
}

Status CellMessenger::send(int32_t peer, Tag tag, Payload payload) {
  if (!shares(peer, tag)) return messenger_.send(peer, tag, std::move(payload));
  const Tag share = link::share_tag(Hop::kScatter, tag, place(rank_));
  const auto shares = static_cast<uint32_t>(members_.size());
  for (uint32_t s = 0; s < shares; ++s) {
    const Cut part = link::cut(payload.size(), s, shares);
    const auto at = [&](uint64_t byte) { return payload.begin() + static_cast<ptrdiff_t>(byte); };
    TRY(messenger_.send(members_[s], share, Payload(at(part.begin), at(part.end))));
  }
  return {};
}

Result<Messenger::Came> CellMessenger::receive_any(std::span<const Awaited> wanted) {
  const auto is_shared = [&](const Awaited& each) { return shares(each.peer, each.tag); };
  if (std::none_of(wanted.begin(), wanted.end(), is_shared)) return messenger_.receive_any(wanted);
  CHECK(wanted.size() == 1, "{} messages are awaited at once, some of them in shares",
        wanted.size());
  return Came{0, TRY(gather(wanted.front().tag))};
}

Result<Received> CellMessenger::gather(Tag tag) {
  const Tag share = link::share_tag(Hop::kGather, tag, place(rank_));
  link::Gather gather(static_cast<uint32_t>(members_.size()));
  for (uint32_t s = 0; s < members_.size(); ++s) {
    TRY(gather.add(s, TRY(messenger_.receive(members_[s], share))));
  }
  return gather.take();
}

RelayThread::RelayThread(transport::Endpoint& endpoint, link::Relay relay,
                         std::function<void(const Error&)> on_failure)
    : endpoint_(endpoint), relay_(std::move(relay)), on_failure_(std::move(on_failure)) {
  thread_ = std::thread([this] {
    status_ = work();
    if (!status_ && on_failure_) on_failure_(status_.error());
  });
}

RelayThread::~RelayThread() {
  if (thread_.joinable()) thread_.join();
}

Status RelayThread::finish() {
  CHECK(thread_.joinable(), "a relay is awaited a second time");
  thread_.join();
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

}  // namespace tombolo::runtime
