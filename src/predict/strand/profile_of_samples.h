// An overlap profile of what was measured on this hardware: medians, how sure they are, and whether a pair could be
// measured at all.
//
// A pair saves what both take one after the other, less what they take concurrently. The null test does the same
// where nothing can be saved: one after the other, and one after the other again, in the same repeats. A pair is not
// measurable here, and has no row in the profile, if the median of its saving is no further from 0 than the median
// of the null may be (the far end of its interval), or if the interval of the saving contains 0. A pair that surely
// costs time is measurable.
//
// Intervals are those of order statistics, which hold whatever the distribution: a median lies between the k-th
// smallest and the k-th largest value but with the probability 2 P(fewer than k heads of n), at most 5 %
// (of 15 the 4th and the 12th: 3.5 %). The spread is (upper - lower quartile) / 1.349 over the median: the
// relative standard deviation, where errors are normal, which a few interrupted repeats do not change.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "predict/strand/dag.h"
#include "predict/strand/overlap_profile.h"
#include "spec/plan/overlap_samples.h"

namespace tombolo::strand {

// In microseconds, as in the file.
struct Measured {
  double median = 0, low = 0, high = 0;
  double spread = 0;  // relative; 0 of a median of 0

  bool operator==(const Measured&) const = default;
};
// CHECKs that there are some; of fewer than 6 the interval is all of them.
Measured measured(std::vector<double> values);

struct MeasuredOperator {
  std::string name, kind;  // of the classes of overlap.h
  Measured alone;
};

struct MeasuredPair {
  std::string first, second;  // operators, which stand for:
  std::string first_class, second_class;
  PairTimes times;           // medians
  double apart = 0;          // one after the other
  double beside = 0;         // until both have ended
  Measured saved, null;      // of each repeat
  double spread = 0;         // the largest of the four times'
  double null_most() const;  // how far from nothing the median of the null may lie
  bool measurable() const;
};

struct MeasuredOverlap {
  int64_t repeats = 0;
  std::vector<MeasuredOperator> operators;
  std::vector<MeasuredPair> pairs;

  // All operators, and the pairs that were measurable, by class.
  Profile profile() const;
};

// `forward` and `backward` say what the operators are. Unusable: samples of other operators, lists of different
// lengths.
Result<MeasuredOverlap> measured_overlap(const plan::OverlapSamples& samples, const Dag& forward,
                                         const Dag& backward);

}  // namespace tombolo::strand
