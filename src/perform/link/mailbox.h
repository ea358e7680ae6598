// What waits on a link: messages to be sent, by urgency, and messages that came, by tag.
//
// Neither knows sockets or clocks. The Outbox cuts messages into segments, and says which one goes
// next and when: whatever connection can take a segment gets the next one of the most urgent
// message, so that an urgent message overtakes others between two segments. The Inbox keeps
// messages until the delay line lets go of them.
//
// Messages are numbered in the order of push(). One that repeats a tag names the one before it;
// for that, tags are remembered until the peer's receipt says that it has all messages so far.
// Segments whose connection was lost come back (put_back) and go again, each as it was cut, before
// what is no more urgent and was never sent.
#pragma once

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <span>

#include "perform/link/frame.h"
#include "perform/link/message.h"
#include "perform/link/pacer.h"

namespace tombolo::link {

// A frame on its way out. The payload is a view into the message, which `owner` keeps alive.
struct Outgoing {
  FrameHeader header;
  std::shared_ptr<const Payload> owner;
  std::span<const std::byte> payload;
  Urgency urgency = 0;
};

class Outbox {
 public:
  Outbox(uint32_t sender, uint32_t epoch) : sender_(sender), epoch_(epoch) {}
  void set_shape(const LinkShape& shape);  // before the first push
  void set_segment_max(uint32_t bytes);    // from the next segment on

  void push(Tag tag, Payload payload, Urgency urgency, SimTime now);
  // When the next segment may go, or nothing if none waits.
  std::optional<SimTime> next_departure(SimTime now) const;
  // The next segment; next_departure(now) <= now. `tail`: the connection that asks is slow, and
  // leaves the last `tail` bytes of a message to others where it finds less urgent work.
  Outgoing take(SimTime now, uint64_t tail = 0);
  // The peer has all messages up to this one: nothing of them goes again. Fails if it claims more
  // than was sent.
  Status receipt(uint64_t message);
  bool all_there() const { return confirmed_ == messages_; }
  // `credit` bytes may be taken in all, kMessageCost for each message included; what is sent again
  // counts once. Without a limit until the first of these calls; allow() ignores less than before.
  void set_credit(uint64_t credit) { credit_ = credit; }
  void allow(uint64_t credit) { credit_ = std::max(credit_, credit); }
  // Nothing may be taken before the peer allows more.
  bool held_back() const { return again_.empty() && !queue_.empty() && room() <= kMessageCost; }
  // It is unknown whether this segment arrived, so it is sent again.
  void put_back(Outgoing segment, SimTime now);
  void clear();

  bool empty() const { return queue_.empty() && again_.empty(); }
  uint64_t queued_bytes() const { return queued_bytes_; }  // payload not yet taken
  uint64_t messages() const { return messages_; }          // pushed, ever
  std::map<Urgency, uint64_t> queued_by_urgency() const;   // bytes; costs a look at every message
  size_t remembered_tags() const { return last_of_tag_.size(); }

 private:
  struct Item {
    Tag tag;
    uint64_t after = 0;
    std::shared_ptr<const Payload> payload;
    SimTime enqueued;
    uint64_t offset = 0;  // what was taken
    SimTime start;
  };
  using Place = std::pair<Urgency, uint64_t>;  // and the number
  using Queue = std::map<Place, Item>;

  // A segment that goes again; by its offset in the message of that place.
  struct Again {
    Outgoing segment;
    SimTime since;
  };
  using AgainQueue = std::map<std::pair<Place, uint64_t>, Again>;

  uint64_t room() const { return credit_ - taken_; }
  bool again_first() const;
  Outgoing take_again(SimTime now);
  Queue::iterator choose(uint64_t tail);

  uint32_t sender_;
  uint32_t epoch_;
  uint32_t segment_max_ = kFramePayloadMax;
  std::optional<Pacer> pacer_;
  Queue queue_;
  AgainQueue again_;
  uint64_t queued_bytes_ = 0;
  uint64_t messages_ = 0;
  uint64_t confirmed_ = 0;
  uint64_t credit_ = kUnlimited;
  uint64_t taken_ = 0;  // as credit counts
  std::map<Tag, uint64_t> last_of_tag_;
  std::map<uint64_t, Tag> tag_of_last_;  // the same, by number
};

struct Received {
  Payload payload;
  SimTime sent_start;  // the first byte left the sender, on the clock that ranks of a host share
  SimTime delivered;   // the last byte was there, delay included: a link interval's end
  SimTime begun;       // the first byte was there, delay included
};

class Inbox {
 public:
  void add(Message message, SimTime arrived);
  // When the oldest message of this tag is handed on, or nothing if none came.
  std::optional<SimTime> due(const Tag& tag, SimDuration delay) const;
  Received take(const Tag& tag, SimDuration delay);
  uint64_t queued_bytes() const { return queued_bytes_; }
  uint64_t messages() const { return messages_; }  // that came, ever
  uint64_t taken_bytes() const { return taken_; }  // ever, kMessageCost for each with it

 private:
  struct Item {
    Message message;
    SimTime arrived;
  };
  std::map<Tag, std::deque<Item>> items_;
  uint64_t queued_bytes_ = 0;
  uint64_t messages_ = 0;
  uint64_t taken_ = 0;
};

}  // namespace tombolo::link
