// What waits on a link: messages to be sent, in order, and messages that came, by tag.
//
// Neither knows sockets or clocks. The Outbox joins Segmenter and Pacer and says which frame goes
// next and when; the Inbox keeps messages until the delay line lets go of them.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <span>

#include "transport/message.h"
#include "transport/pacer.h"

namespace tombolo::transport {

// A frame on its way out. The payload is a view into the message, which `owner` keeps alive.
struct Outgoing {
  FrameHeader header;
  std::shared_ptr<const Payload> owner;
  std::span<const std::byte> payload;
};

class Outbox {
 public:
  Outbox(uint32_t sender, uint32_t epoch) : sender_(sender), epoch_(epoch) {}
  void set_shape(const LinkShape& shape);  // before the first push

  void push(Tag tag, Payload payload, SimTime now);
  // When the next frame may go, or nothing if none waits.
  std::optional<SimTime> next_departure(SimTime now);
  Outgoing take(SimTime now);  // the next frame; next_departure(now) <= now
  void clear();

  bool empty() const { return queue_.empty(); }
  uint64_t queued_bytes() const { return queued_bytes_; }  // payload not yet taken

 private:
  struct Item {
    Tag tag;
    std::shared_ptr<const Payload> payload;
    SimTime enqueued;
    Segmenter segmenter;
    SimTime start;
  };

  uint32_t sender_;
  uint32_t epoch_;
  uint32_t segment_max_ = kFramePayloadMax;
  std::optional<Pacer> pacer_;
  std::deque<Item> queue_;
  uint64_t queued_bytes_ = 0;
  std::optional<Segment> segment_;  // the next of the front message, with its slot if paced
  Slot slot_;
};

struct Received {
  Payload payload;
  SimTime sent_start;  // the first byte left the sender, on the clock that ranks of a host share
  SimTime delivered;   // the last byte was there, delay included: a link interval's end
};

class Inbox {
 public:
  void add(Message message, SimTime arrived);
  // When the oldest message of this tag is handed on, or nothing if none came.
  std::optional<SimTime> due(const Tag& tag, SimDuration delay) const;
  Received take(const Tag& tag, SimDuration delay);
  uint64_t queued_bytes() const { return queued_bytes_; }

 private:
  struct Item {
    Message message;
    SimTime arrived;
  };
  std::map<Tag, std::deque<Item>> items_;
  uint64_t queued_bytes_ = 0;
};

}  // namespace tombolo::transport
