#include "transport/mailbox.h"

#include <utility>

#include "base/check.h"

namespace tombolo::transport {

void Outbox::set_shape(const LinkShape& shape) {
  CHECK(queue_.empty(), "a link changes its shape with {} bytes under way", queued_bytes_);
  segment_max_ = shape.segment_max();
  pacer_.reset();
  if (shape.rate) pacer_.emplace(*shape.rate);
}

void Outbox::push(Tag tag, Payload payload, SimTime now) {
  const uint64_t bytes = payload.size();
  queued_bytes_ += bytes;
  queue_.push_back({.tag = tag,
                    .payload = std::make_shared<const Payload>(std::move(payload)),
                    .enqueued = now,
                    .segmenter = Segmenter(bytes, segment_max_)});
}

std::optional<SimTime> Outbox::next_departure(SimTime now) {
  if (queue_.empty()) return std::nullopt;
  if (!segment_) {
    segment_ = queue_.front().segmenter.next();
    if (pacer_) slot_ = pacer_->take(queue_.front().enqueued, segment_->length);
  }
  return pacer_ ? slot_.begin : now;
}

Outgoing Outbox::take(SimTime now) {
  const auto departure = next_departure(now);
  CHECK(departure && *departure <= now, "no frame may go at {} ns", now.ns);
  Item& item = queue_.front();
  if (!pacer_) slot_ = {now, now};
  if (segment_->offset == 0) item.start = slot_.begin;
  Outgoing out{.header = {.kind = FrameKind::kData,
                          .sender = sender_,
                          .epoch = epoch_,
                          .iteration = item.tag.iteration,
                          .tag = item.tag.tensor,
                          .offset = segment_->offset,
                          .total = item.payload->size(),
                          .length = segment_->length,
                          .start = item.start,
                          .departed = slot_.end},
               .owner = item.payload,
               .payload = std::span(*item.payload).subspan(segment_->offset, segment_->length)};
  queued_bytes_ -= segment_->length;
  segment_.reset();
  if (item.segmenter.done()) queue_.pop_front();
  return out;
}

void Outbox::clear() {
  queue_.clear();
  segment_.reset();
  queued_bytes_ = 0;
}

void Inbox::add(Message message, SimTime arrived) {
  queued_bytes_ += message.payload.size();
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
  return {std::move(message.payload), message.start, *delivered};
}

}  // namespace tombolo::transport
