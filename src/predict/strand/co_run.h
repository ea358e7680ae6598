// Operators of two strands on the three streams of a device, in continuous time.
//
// A stream runs one operator at a time, in the order in which they were put on it. An operator
// starts when its stream is free and what it waits for is done; it progresses at the product of its
// paces with the operators that run on the other streams.
//
// A segment of a plan runs its most urgent operator first: the one with most work after it, inside
// the segment.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "predict/strand/device_streams.h"
#include "predict/strand/strand_pair.h"

namespace tombolo::strand {

enum class Discipline : uint8_t {
  kEager,   // a stream takes the first that can start
  kInOrder  // a stream takes the first, and waits for it: what queues of a device do
};

struct LaunchOrder {
  std::span<const double> rank;  // of each operator of the pair: how late; ties: the lower number
  Discipline discipline = Discipline::kEager;
  std::span<const PairSet> waits = {};  // what each waits for besides its strand: events
};

// Seconds until all of `set` are done; those outside count as done. `runs`, where given, gets every
// operator in order of start. CHECKs that an order kept to the letter ends. Cost: O(operators of
// the set squared).
double co_run(const StrandPair& pair, PairSet set, const LaunchOrder& order,
              std::vector<OperatorRun>* runs = nullptr);

// The time of a segment alone: the most urgent operator first.
double segment_seconds(const StrandPair& pair, PairSet segment,
                       std::vector<OperatorRun>* runs = nullptr);

// No order finishes the segment sooner: the longest of its streams and of its chains.
double segment_bound(const StrandPair& pair, PairSet segment);

// One strand alone as a framework runs it: one operator after the other, except that asynchronous
// communication overlaps operators that do not need it (framework_order).
double strand_seconds(const StrandPair& pair, bool forward);

}  // namespace tombolo::strand
