#include "lab/wanem/frame_pool.h"

#include <cstring>

#include "base/check.h"

namespace tombolo::wanem {

std::unique_ptr<uint8_t[]> FramePool::buffer(uint32_t size_class) {
  auto& free = buffers_[size_class];
  if (free.empty()) return std::unique_ptr<uint8_t[]>(new uint8_t[kSizes[size_class]]);
  auto out = std::move(free.back());
  free.pop_back();
  return out;
}

uint8_t* FramePool::space() {
  if (!space_) space_ = buffer(kSizes.size() - 1);
  return space_.get();
}

uint32_t FramePool::keep(uint32_t size, const Packet& packet) {
  CHECK(space_ && size <= kFrameMax, "no frame of {} bytes was read", size);
  CHECK(packet.segments >= 1, "a frame of no segments would stay for ever");
  if (free_.empty()) {
    free_.push_back(static_cast<uint32_t>(frames_.size()));
    frames_.emplace_back();
  }
  const uint32_t number = free_.back();
  free_.pop_back();
  Frame& frame = frames_[number];
  frame.size = size;
  frame.packet = packet;
  frame.segments_left = packet.segments;
  frame.size_class = 0;
  while (size > kSizes[frame.size_class]) ++frame.size_class;
  if (frame.size_class == kSizes.size() - 1) {
    frame.buffer = std::move(space_);
  } else {
    frame.buffer = buffer(frame.size_class);
    std::memcpy(frame.buffer.get(), space_.get(), size);
  }
  return number;
}

void FramePool::release(uint32_t number, uint32_t segments) {
  CHECK(number < frames_.size(), "frame {} of {}", number, frames_.size());
  Frame& frame = frames_[number];
  CHECK(segments <= frame.segments_left, "frame {} has {} segments left, not {}", number,
        frame.segments_left, segments);
  frame.segments_left -= segments;
  if (frame.segments_left > 0) return;
  buffers_[frame.size_class].push_back(std::move(frame.buffer));
  free_.push_back(number);
}

}  // namespace tombolo::wanem
