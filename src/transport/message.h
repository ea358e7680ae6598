// Messages: a tensor's bytes, cut into segments for the wire and put together again.
//
// A Segmenter only counts: segments are views of the payload, nothing is copied on the way out. The
// Assembler appends each segment to its message: the one copy in user space on the way in. Messages
// of a connection follow each other and do not interleave.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "transport/frame.h"

namespace tombolo::transport {

using Payload = std::vector<std::byte>;

// Which message: both ends derive the same tag from the Plan. Equal tags between the same two ranks
// are received in the order they were sent.
struct Tag {
  uint64_t iteration = 0;
  uint64_t tensor = 0;
  auto operator<=>(const Tag&) const = default;
};
std::string text(const Tag& tag);  // "iteration 3 tensor 7"

struct Segment {
  uint64_t offset = 0;  // bytes
  uint32_t length = 0;  // bytes
  bool operator==(const Segment&) const = default;
};

// A message of `total` bytes as segments of at most `segment_max`; an empty message is one empty
// segment.
class Segmenter {
 public:
  Segmenter(uint64_t total, uint32_t segment_max);
  bool done() const { return done_; }
  Segment next();  // not done()

 private:
  uint64_t total_;
  uint64_t offset_ = 0;
  uint32_t segment_max_;
  bool done_ = false;
};

struct Message {
  Tag tag;
  Payload payload;
  SimTime start;     // its first byte left the sender
  SimTime departed;  // its last byte did
};

class Assembler {
 public:
  struct Options {
    uint32_t sender = 0;  // whose frames these must be
    uint32_t epoch = 0;
    uint64_t message_max = 0;  // bytes
  };
  explicit Assembler(Options options) : options_(options) {}

  // Takes the next data frame of a connection; a message when it was the last one of it. Fails on a
  // gap, an overlap, a change of total or tag within a message, a stranger's rank, another epoch
  // and a message above the limit.
  Result<std::optional<Message>> add(const Frame& frame);

 private:
  Status check(const FrameHeader& header) const;

  Options options_;
  std::optional<Message> open_;
  uint64_t total_ = 0;  // of the open message
};

}  // namespace tombolo::transport
