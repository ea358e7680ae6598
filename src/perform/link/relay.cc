#include "perform/link/relay.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace tombolo::link {
namespace {

constexpr size_t kNoteBytes = 8;                      // at the end of a gathered share
constexpr int64_t kRelayStampMax = int64_t{1} << 62;  // as in frames

void append_note(Payload& payload, SimTime start) {
  const auto value = static_cast<uint64_t>(start.ns);
  for (size_t i = 0; i < kNoteBytes; ++i) {
    payload.push_back(static_cast<std::byte>(value >> (8 * i)));
  }
}

Result<SimTime> strip_note(Payload& payload) {
  if (payload.size() < kNoteBytes)
    return failed(fmt::format("a share of {} bytes has no note", payload.size()));
  uint64_t value = 0;
  for (size_t i = 0; i < kNoteBytes; ++i) {
    value |= static_cast<uint64_t>(payload[payload.size() - kNoteBytes + i]) << (8 * i);
  }
  if (value >= static_cast<uint64_t>(kRelayStampMax))
    return failed("a share says that it left at no instant");
  payload.resize(payload.size() - kNoteBytes);
  return SimTime{static_cast<int64_t>(value)};
}

}  // namespace

// The highest bit tells shares from whole messages; then the hop, the owner and the tensor.
Tag share_tag(Hop hop, const Tag& message, uint32_t owner) {
  CHECK(message.tensor < kOwnTensorMax && owner < kCellMax, "{} of member {} cannot be shared",
        text(message), owner);
  return {message.iteration, uint64_t{1} << 63 | static_cast<uint64_t>(hop) << 61 |
                                 static_cast<uint64_t>(owner) << 40 | message.tensor};
}

bool is_share(const Tag& tag) { return tag.tensor >> 63 != 0; }

Tag whole_tag(const Tag& share) { return {share.iteration, share.tensor % kOwnTensorMax}; }

// In two steps, because total x share may not fit.
Cut cut(uint64_t total, uint32_t share, uint32_t shares) {
  const uint64_t each = total / shares, rest = total % shares;
  const auto at = [&](uint64_t s) { return each * s + rest * s / shares; };
  return {at(share), at(uint64_t{share} + 1)};
}

Relay::Relay(std::vector<Passage> passages, uint64_t first, uint64_t last) : last_(last) {
  for (Passage& passage : passages) {
    for (const Turn& turn : passage.turns) {
      CHECK(turn.owner < passage.members.size(), "member {} of {} owns a turn", turn.owner,
            passage.members.size());
    }
    passages_.push_back({std::move(passage), first, 0});
  }
}

std::vector<Relay::Wanted> Relay::wanted() const {
  std::vector<Wanted> out;
  for (size_t i = 0; i < passages_.size(); ++i) {
    const auto& [passage, iteration, turn] = passages_[i];
    if (iteration > last_ || passage.turns.empty()) continue;
    const auto [owner, tensor] = passage.turns[turn];
    out.push_back(
        {i, passage.outgoing ? passage.members[owner] : passage.across,
         share_tag(passage.outgoing ? Hop::kScatter : Hop::kCarry, {iteration, tensor}, owner)});
  }
  return out;
}

Relay::Parcel Relay::carry(size_t number, Received share) {
  auto& [passage, iteration, turn] = passages_.at(number);
  CHECK(iteration <= last_, "a share after the last iteration");
  const auto [owner, tensor] = passage.turns[turn];
  Parcel out{.to = passage.across,
             .tag = share_tag(Hop::kCarry, {iteration, tensor}, owner),
             .payload = std::move(share.payload),
             .urgency = std::min<uint64_t>(iteration, UINT32_MAX) << 32 | turn};
  if (!passage.outgoing) {
    out.to = passage.members[owner];
    out.tag = share_tag(Hop::kGather, {iteration, tensor}, owner);
    append_note(out.payload, share.sent_start);
  }
  if (++turn == passage.turns.size()) {
    turn = 0;
    ++iteration;
  }
  return out;
}

Status Gather::add(uint32_t share, Received part) {
  if (share >= shares_.size() || shares_[share])
    return failed(fmt::format("share {} of {} came twice", share, shares_.size()));
  part.sent_start = TRY(strip_note(part.payload));
  shares_[share] = std::move(part);
  return {};
}

Result<Received> Gather::take() {
  uint64_t total = 0;
  for (const auto& share : shares_) {
    CHECK(share, "a message was taken before its shares were there");
    total += share->payload.size();
  }
  Received out = std::move(*shares_.front());
  out.payload.reserve(total);
  for (uint32_t s = 0; s < shares_.size(); ++s) {
    const auto [begin, end] = cut(total, s, static_cast<uint32_t>(shares_.size()));
    const Payload& part = s == 0 ? out.payload : shares_[s]->payload;
    if (part.size() != end - begin)
      return failed(fmt::format("share {} of {} has {} bytes, and a message of {} would give it {}",
                                s, shares_.size(), part.size(), total, end - begin));
    if (s == 0) continue;
    out.payload.insert(out.payload.end(), part.begin(), part.end());
    out.sent_start = std::min(out.sent_start, shares_[s]->sent_start);
    out.delivered = std::max(out.delivered, shares_[s]->delivered);
  }
  return out;
}

}  // namespace tombolo::link
