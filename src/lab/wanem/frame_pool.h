// Frames on their way, in buffers that are used again.
//
// A frame lives until the last of its segments has been delivered or dropped. Buffers come in three
// sizes, since most memory of a long fat link would otherwise be the unused rest of 64 KiB behind
// small packets. The pool grows to the largest number of frames that were on their way at once.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "lab/wanem/packet.h"

namespace tombolo::wanem {

struct Frame {
  std::unique_ptr<uint8_t[]> buffer;
  uint32_t size = 0;
  uint32_t size_class = 0;
  uint32_t segments_left = 0;
  Packet packet;

  std::span<const uint8_t> bytes() const { return {buffer.get(), size}; }
};

class FramePool {
 public:
  // Where the next frame is to be read to: kFrameMax bytes.
  uint8_t* space();
  // Keeps the first `size` bytes of space() as a frame; returns its number.
  uint32_t keep(uint32_t size, const Packet& packet);
  const Frame& operator[](uint32_t number) const { return frames_[number]; }
  // `segments` more of the frame's segments are done. Its number may be reused after the last.
  void release(uint32_t number, uint32_t segments);
  size_t in_use() const { return frames_.size() - free_.size(); }

 private:
  static constexpr std::array<uint32_t, 3> kSizes = {2048, 16384, kFrameMax};
  std::unique_ptr<uint8_t[]> buffer(uint32_t size_class);

  std::unique_ptr<uint8_t[]> space_;
  std::vector<Frame> frames_;
  std::vector<uint32_t> free_;
  std::array<std::vector<std::unique_ptr<uint8_t[]>>, 3> buffers_;
};

}  // namespace tombolo::wanem
