// Equation 2 of Wang et al. 2024 (DHelix), section 4.2: the best pairing of two strands that are
// already cut into segments, in one given order each.
//
//   T(i, j) = min { T(i-1, j) + P(i, -),  T(i, j-1) + P(-, j),  T(i-1, j-1) + P(i, j) }
//
// for 0 <= i <= Nf and 0 <= j <= Nb (the paper's bounds leave out the ends), T(0, 0) = 0, and what
// reaches outside left out. Which orders and cuts to try it does not say; ideal_search.h needs
// neither. Cost: O(Nf Nb).
#pragma once

#include <span>
#include <vector>

#include "predict/strand/strand_pair.h"

namespace tombolo::strand {

// Seconds of segments alone and paired: P(i, -), P(-, j), P(i, j).
struct SegmentTimes {
  std::vector<double> forward;
  std::vector<double> backward;
  std::vector<double> paired;  // [i * backward.size() + j]
};

// T(i, j) of all i and j: (Nf + 1) rows of Nb + 1. The last is the answer.
std::vector<double> equation_2(const SegmentTimes& times);

// The P of two partitions, each segment followed by a barrier.
SegmentTimes segment_times(const StrandPair& pair, std::span<const OperatorSet> forward,
                           std::span<const OperatorSet> backward, double barrier);

// Every operator a segment of its own, in the order in which strands list them.
std::vector<OperatorSet> single_operators(const Dag& dag);

}  // namespace tombolo::strand
