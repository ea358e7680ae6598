// The events of a simulation, in the order in which they happen.
//
// Ordered by (time, sequence): events of one instant come out in the order in which they were
// pushed, so the same pushes give the same run on every machine. An event says what (kind) happens
// to whom (subject); both numbers belong to the caller. The fingerprint is a hash of every event
// popped: two runs with one seed and two fingerprints is a bug found for free.
//
// Cost: a binary heap of 32-byte events. Push and pop compare about log2(n) pairs of integers and
// allocate only to grow; a million waiting events take 32 MB. The simulations of pipelines push
// each event shortly before it happens, so n stays near the number of ranks and flows.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

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
  void push(SimTime time, uint32_t kind, uint64_t subject);

  // The next event; now() becomes its time. CHECKs that there is one.
  Event pop();

  bool empty() const { return heap_.empty(); }
  size_t size() const { return heap_.size(); }
  SimTime next_time() const;            // of the event that pop() would return
  SimTime now() const { return now_; }  // of the last event popped; 0 before
  uint64_t popped() const { return popped_; }

  // 16 hexadecimal digits over (time, kind, subject) of all events popped so far.
  std::string fingerprint() const { return fingerprint_.text(); }

 private:
  std::vector<Event> heap_;
  uint64_t pushed_ = 0;
  uint64_t popped_ = 0;
  SimTime now_;
  Fingerprint fingerprint_;
};

}  // namespace tombolo::engine
