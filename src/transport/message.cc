#include "transport/message.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace tombolo::transport {

std::string text(const Tag& tag) {
  return fmt::format("iteration {} tensor {}", tag.iteration, tag.tensor);
}

Segmenter::Segmenter(uint64_t total, uint32_t segment_max)
    : total_(total), segment_max_(segment_max) {
  CHECK(segment_max > 0 && segment_max <= kFramePayloadMax, "segments of {} bytes", segment_max);
}

Segment Segmenter::next() {
  CHECK(!done_, "a message of {} bytes has no more segments", total_);
  const auto length = static_cast<uint32_t>(std::min<uint64_t>(segment_max_, total_ - offset_));
  const Segment segment{offset_, length};
  offset_ += length;
  done_ = offset_ == total_;
  return segment;
}

Status Assembler::check(const FrameHeader& header) const {
  const Tag tag{header.iteration, header.tag};
  if (header.sender != options_.sender)
    return failed(fmt::format("a frame of rank {} on the connection of rank {}", header.sender,
                              options_.sender));
  if (header.epoch != options_.epoch)
    return failed(
        fmt::format("a frame of membership epoch {} in epoch {}", header.epoch, options_.epoch));
  if (header.total > options_.message_max)
    return failed(fmt::format("{} has {} bytes, the limit is {}", text(tag), header.total,
                              options_.message_max));
  if (header.length == 0 && header.total > 0)
    return failed(fmt::format("an empty frame inside {}", text(tag)));
  if (open_ && (tag != open_->tag || header.total != total_))
    return failed(fmt::format("{} ({} bytes) begins inside {} ({} bytes)", text(tag), header.total,
                              text(open_->tag), total_));
  const uint64_t expected = open_ ? open_->payload.size() : 0;
  if (header.offset != expected)
    return failed(fmt::format("{} continues at byte {} where {} was due", text(tag), header.offset,
                              expected));
  return {};
}

Result<std::optional<Message>> Assembler::add(const Frame& frame) {
  TRY(check(frame.header));
  if (!open_) {
    total_ = frame.header.total;
    open_ = Message{.tag = {frame.header.iteration, frame.header.tag}, .start = frame.header.start};
    open_->payload.reserve(total_);
  }
  open_->payload.insert(open_->payload.end(), frame.payload.begin(), frame.payload.end());
  open_->departed = frame.header.departed;
  if (open_->payload.size() < total_) return std::nullopt;
  return std::exchange(open_, std::nullopt);
}

}  // namespace tombolo::transport
