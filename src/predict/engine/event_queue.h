// The events of a simulation, in the order in which they happen.
//
// Ordered by (time, sequence): events of one instant come out in the order in which they were
// pushed, so the same pushes give the same run on every machine. An event says what (kind) happens
// to whom (subject); both numbers belong to the caller. The fingerprint is a hash of every event
// popped: if two runs with the same seed have different fingerprints, there is a bug.
//
// Inside: hierarchical timing wheels. No event may be pushed into the past, so one can be filed by
// the highest digit (base 64) in which its time differs from the present: wheel 0 has a slot for
// each of the coming nanoseconds, wheel 1 for each 64 of them, wheel 2 for each 4096. The first
// slot of the lowest wheel holds the earliest events. When wheel 0 is empty, that slot is refiled
// on the wheels below it, in the order in which it was filled; equal times always share a slot, so
// no sequence numbers need comparing. Source: G. Varghese, A. Lauck, "Hashed and Hierarchical
// Timing Wheels", SOSP 1987; filing by the differing digit is R. Ahuja et al.'s radix heap, JACM
// 37, 1990.
//
// Cost: each event is filed once per wheel that it passes: at most as often as the span that it was
// pushed ahead has digits, in practice two or three times. Pushing and popping it takes about 65 ns
// with ten thousand waiting and 75 with a million, fingerprint included, where a binary heap takes
// 120 and 2000 (bench/engine_bench.cc). A waiting event takes 32 bytes, up to twice that in slots
// that are growing.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/hash.h"
#include "base/time.h"

namespace tombolo::engine {

struct Event {
  SimTime time;
  uint64_t sequence = 0;  // given by push, counting from 0
  uint32_t kind = 0;
  uint64_t subject = 0;
};

class EventQueue {
 public:
  // Not before now(): the past is over.
  void push(SimTime time, uint32_t kind, uint64_t subject) {
    CHECK(time >= now_, "event kind {} for subject {} at {} ns, but it is {} ns already", kind,
          subject, time.ns, now_.ns);
    file({time, pushed_++, kind, subject});
    ++size_;
  }

  // The next event; now() becomes its time. CHECKs that there is one.
  Event pop();

  bool empty() const { return size_ == 0; }
  size_t size() const { return size_; }
  SimTime next_time() const;            // of the event that pop() would return
  SimTime now() const { return now_; }  // of the last event popped; 0 before
  uint64_t popped() const { return popped_; }

  // 16 hexadecimal digits over (time, kind, subject) of all events popped so far.
  std::string fingerprint() const { return fingerprint_.text(); }

 private:
  static constexpr int kDigitBits = 6;
  static constexpr int kSlots = 1 << kDigitBits;
  static constexpr int kWheels = 11;  // 66 bits

  struct Wheel {
    uint64_t filled = 0;  // a bit per slot
    std::array<std::vector<Event>, kSlots> slots;
  };
  std::array<Wheel, kWheels> wheels_;
  std::array<size_t, kSlots> taken_{};  // of the slots of wheel 0: events popped from their front
  int64_t base_ = 0;  // digits of the present, above the lowest: what times are compared with
  size_t size_ = 0;
  uint64_t pushed_ = 0;
  uint64_t popped_ = 0;
  SimTime now_;
  Fingerprint fingerprint_;

  void file(const Event& event) {
    const auto time = static_cast<uint64_t>(event.time.ns);
    const uint64_t differing = time ^ static_cast<uint64_t>(base_);
    const int w = differing < kSlots ? 0 : (63 - __builtin_clzll(differing)) / kDigitBits;
    const auto slot = (time >> (w * kDigitBits)) % kSlots;
    Wheel& wheel = wheels_[static_cast<size_t>(w)];
    wheel.filled |= uint64_t{1} << slot;
    wheel.slots[slot].push_back(event);
  }
  size_t first_wheel() const;  // that is not empty
  void refill();               // wheel 0 from the first wheel that is not empty
};

}  // namespace tombolo::engine
