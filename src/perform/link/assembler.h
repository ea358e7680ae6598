// The Assembler puts segments together into messages again, whichever connection they come over and
// in whichever order.
//
// A message is known by its number. Segments that continue what is there are appended to the
// message: the one copy in user space. Those that come too early wait separately, at the price of a
// second copy. So memory follows from the bytes that came, never from what headers promise; the
// address ranges that are set aside for open messages are together no longer than one message may
// be.
//
// A link that outlives its connections sends again what was not confirmed (`repeats`). Then bytes
// that are here already are dropped, whether their message was handed on or is still open, if they
// are the same; what overlaps only in part, or differs, is refused as without `repeats`.
//
// Messages of equal tags leave in the order of their numbers: each names the one before it
// (`after`), and waits for it.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "base/result.h"
#include "perform/link/frame.h"
#include "perform/link/message.h"

namespace tombolo::link {

// The numbers that were seen, from 1. Memory: one entry per gap.
class SeenNumbers {
 public:
  bool contains(uint64_t number) const;
  void add(uint64_t number);     // not seen yet
  uint64_t without_gap() const;  // all up to this one were seen
  size_t runs() const { return runs_.size(); }

 private:
  std::map<uint64_t, uint64_t> runs_;  // first -> last; not adjacent
};

class Assembler {
 public:
  struct Options {
    uint32_t sender = 0;  // whose frames these must be
    uint32_t epoch = 0;
    uint64_t message_max = 0;                     // bytes
    uint64_t open_bytes_max = uint64_t{4} << 30;  // of all messages that are not complete
    size_t open_max = 65'536;                     // how many these are, and gaps in the numbers
    bool repeats = false;                         // what came before may come again
  };
  explicit Assembler(Options options) : options_(options) {}
  void allow_repeats() { options_.repeats = true; }

  // Takes a data frame that came at `now`; returns the messages that it completes, usually none or one. Fails on bytes
  // that came before, a change of tag or total within a message, a rank other than Options::sender,
  // another epoch, beyond the limits, and where there is no memory.
  Result<std::vector<Message>> add(const Frame& frame, SimTime now = {});

  uint64_t complete() const { return released_.without_gap(); }  // all up to this number came out
  uint64_t open_bytes() const { return open_bytes_; }
  // All bytes that ever came, without repeats, plus kMessageCost for each message.
  uint64_t came_bytes() const { return came_; }
  uint64_t reserved() const { return reserved_; }

 private:
  struct Open {
    Message message;
    uint64_t total = 0;
    uint64_t after = 0;
    bool reserved = false;              // its whole address range
    std::map<uint64_t, Payload> early;  // by offset, behind a gap
  };

  // Whether the frame is to be taken; false: it is all here already.
  Result<bool> check(const FrameHeader& header) const;
  Result<bool> check_place(const Frame& frame, const Open& open) const;
  static Status check_same(const FrameHeader& header, const Open& open);
  Status begin(const FrameHeader& header, Open& open);
  static void put(const Frame& frame, Open& open);
  void release(std::map<uint64_t, Open>::iterator held, std::vector<Message>& out);

  Options options_;
  std::map<uint64_t, Open> open_;
  std::map<uint64_t, Open> held_;          // complete, but another with the same tag goes before
  std::map<uint64_t, uint64_t> follower_;  // of that one: who waits for it
  SeenNumbers released_;
  uint64_t open_bytes_ = 0;
  uint64_t came_ = 0;
  uint64_t reserved_ = 0;  // bytes
};

}  // namespace tombolo::link
