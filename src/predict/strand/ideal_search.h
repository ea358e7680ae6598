// The best plan of segments for two strands: all orders, all partitions and all pairings at once.
//
// A plan is a list of segments with a barrier after each. A segment holds up to `segment_max`
// operators of either strand, or of one, and takes segment_seconds (co_run.h). What is done before
// a segment is an order ideal of each strand; so the best plan is a shortest way over pairs of
// ideals (I, J), from nothing to all:
//
//   T(I, J) = min over ideals I' of I, J' of J   T(I', J') + barrier + segment(I - I', J - J')
//
// This covers every topological order of both strands and every partition of each, where equation 2
// of Wang et al. 2024 (DHelix) takes one order and one partition (equation_2.h). It is exact for
// that cost of a segment and that `segment_max`.
//
// Cost: pairs of ideals times segments that end there; 1,590 states and some ten milliseconds for a
// dense layer. Segments whose bound is no better than what is known are not played.
#pragma once

#include <cstdint>
#include <vector>

#include "predict/strand/co_run.h"
#include "predict/strand/strand_pair.h"

namespace tombolo::strand {

struct SearchOptions {
  int segment_max = 4;     // operators of one strand in a segment
  double barrier = 20e-6;  // seconds: synchronisation, and launching what comes next
};

struct Segment {
  PairSet operators;
  double seconds = 0;  // without its barrier
};

struct SegmentPlan {
  std::vector<Segment> segments;
  double seconds = 0;  // barriers included

  // What the search looked at.
  int64_t states = 0;       // pairs of ideals
  int64_t transitions = 0;  // segments at the end of them
  int64_t played = 0;       // different segments that were timed
};

SegmentPlan search_segments(const StrandPair& pair, const SearchOptions& options);

// Recomputes the time of a plan with barriers, for other paces or times than it was found with.
double replay(const StrandPair& pair, const SegmentPlan& plan, double barrier,
              std::vector<OperatorRun>* runs = nullptr);

}  // namespace tombolo::strand
