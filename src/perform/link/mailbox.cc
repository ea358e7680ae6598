#include "perform/link/mailbox.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace tombolo::link {

void Outbox::set_shape(const LinkShape& shape) {
  CHECK(empty(), "a link changes its shape with {} bytes under way", queued_bytes_);
  segment_max_ = shape.segment_max();
  pacer_.reset();
  if (shape.rate) pacer_.emplace(*shape.rate);
}

void Outbox::set_segment_max(uint32_t bytes) {
  CHECK(bytes > 0 && bytes <= kFramePayloadMax, "segments of {} bytes", bytes);
  segment_max_ = bytes;
}

void Outbox::push(Tag tag, Payload payload, Urgency urgency, SimTime now) {
  queued_bytes_ += payload.size();
  const uint64_t number = ++messages_;
  uint64_t& last = last_of_tag_[tag];
  const uint64_t after = std::exchange(last, number);
  tag_of_last_.erase(after);
  tag_of_last_.emplace(number, tag);
  queue_.emplace(Place{urgency, number},
                 Item{.tag = tag,
                      .after = after,
                      .payload = std::make_shared<const Payload>(std::move(payload)),
                      .enqueued = now});
}

std::optional<SimTime> Outbox::next_departure(SimTime now) const {
  if (empty() || held_back()) return std::nullopt;
  if (!pacer_) return now;
  const SimTime there =
      again_first() ? again_.begin()->second.since : queue_.begin()->second.enqueued;
  return std::max(there, pacer_->free_at());
}

void Outbox::put_back(Outgoing segment, SimTime now) {
  queued_bytes_ += segment.payload.size();
  const Place place{segment.urgency, segment.header.message};
  const uint64_t offset = segment.header.offset;
  again_.emplace(std::pair(place, offset), Again{std::move(segment), now});
}

bool Outbox::again_first() const {
  return !again_.empty() && (queue_.empty() || room() <= kMessageCost ||
                             again_.begin()->first.first <= queue_.begin()->first);
}

Outgoing Outbox::take_again(SimTime now) {
  const auto first = again_.begin();
  const SimTime since = first->second.since;
  Outgoing out = std::move(first->second.segment);
  again_.erase(first);
  queued_bytes_ -= out.payload.size();
  const SimTime end = pacer_ ? pacer_->take(since, out.payload.size()).end : now;
  out.header.departed = std::max(out.header.departed, end);
  return out;
}

Outbox::Queue::iterator Outbox::choose(uint64_t tail) {
  constexpr int kLookedAt = 16;  // messages
  auto at = queue_.begin();
  for (int i = 0; tail > 0 && i < kLookedAt && at != queue_.end(); ++i, ++at) {
    if (at->second.payload->size() - at->second.offset > tail) return at;
  }
  return queue_.begin();
}

Outgoing Outbox::take(SimTime now, uint64_t tail) {
  const auto departure = next_departure(now);
  CHECK(departure && *departure <= now, "no segment may go at {} ns", now.ns);
  if (again_first()) return take_again(now);
  const auto chosen = choose(tail);
  Item& item = chosen->second;
  const uint64_t total = item.payload->size();
  const uint64_t fits = std::min<uint64_t>(segment_max_, room() - kMessageCost);
  const auto length = static_cast<uint32_t>(std::min(fits, total - item.offset));
  taken_ += length + (item.offset == 0 ? kMessageCost : 0);
  const Slot slot = pacer_ ? pacer_->take(item.enqueued, length) : Slot{now, now};
  if (item.offset == 0) item.start = slot.begin;
  Outgoing out{.header = {.kind = FrameKind::kData,
                          .sender = sender_,
                          .epoch = epoch_,
                          .iteration = item.tag.iteration,
                          .tag = item.tag.tensor,
                          .message = chosen->first.second,
                          .after = item.after,
                          .offset = item.offset,
                          .total = total,
                          .length = length,
                          .start = item.start,
                          .departed = slot.end},
               .owner = item.payload,
               .payload = std::span(*item.payload).subspan(item.offset, length),
               .urgency = chosen->first.first};
  queued_bytes_ -= length;
  item.offset += length;
  if (item.offset == total) queue_.erase(chosen);
  return out;
}

Status Outbox::receipt(uint64_t message) {
  if (message > messages_)
    return failed(fmt::format("a receipt for message {} of {}", message, messages_));
  while (!tag_of_last_.empty() && tag_of_last_.begin()->first <= message) {
    last_of_tag_.erase(tag_of_last_.begin()->second);
    tag_of_last_.erase(tag_of_last_.begin());
  }
  confirmed_ = std::max(confirmed_, message);
  std::erase_if(again_, [&](const auto& each) {
    const Outgoing& segment = each.second.segment;
    if (segment.header.message > message) return false;
    queued_bytes_ -= segment.payload.size();
    return true;
  });
  return {};
}

std::map<Urgency, uint64_t> Outbox::queued_by_urgency() const {
  std::map<Urgency, uint64_t> out;
  for (const auto& [place, item] : queue_) out[place.first] += item.payload->size() - item.offset;
  for (const auto& [at, each] : again_) out[each.segment.urgency] += each.segment.payload.size();
  return out;
}

void Outbox::clear() {
  queue_.clear();
  again_.clear();
  queued_bytes_ = 0;
}

void Inbox::add(Message message, SimTime arrived) {
  queued_bytes_ += message.payload.size();
  ++messages_;
  items_[message.tag].push_back({std::move(message), arrived});
}

std::optional<SimTime> Inbox::due(const Tag& tag, SimDuration delay) const {
  const auto at = items_.find(tag);
  if (at == items_.end()) return std::nullopt;
  const Item& item = at->second.front();
  return delivery(item.message.departed, item.arrived, delay);
}

Received Inbox::take(const Tag& tag, SimDuration delay) {
  const auto delivered = due(tag, delay);
  CHECK(delivered, "no message of {}", text(tag));
  const auto at = items_.find(tag);
  Message message = std::move(at->second.front().message);
  at->second.pop_front();
  if (at->second.empty()) items_.erase(at);
  queued_bytes_ -= message.payload.size();
  taken_ += message.payload.size() + kMessageCost;
  return {std::move(message.payload), message.start, *delivered,
          std::min(message.begun + delay, *delivered)};
}

}  // namespace tombolo::link
