// In which order a run shows its samples.
//
// Position p of a run is sample at(p): in epoch p / samples every sample comes once, in an order
// that depends on the seed and the epoch alone. Nothing is stored or counted, so a run that
// resumes, or that has other replicas or stages, reads the same samples at the same positions.
//
// An epoch's order is a permutation of 0 .. samples - 1: a Feistel network of eight rounds over the
// smallest 2^(2h) that is not below `samples`, walked along its cycle until it is back below
// `samples` (Black and Rogaway 2002, "Ciphers with arbitrary finite domains"). Not for secrets.
//
// Cost of at(): O(1) memory and, as 2^(2h) < 4 x samples, fewer than four walks on average.
#pragma once

#include <cstdint>

namespace tombolo::data {

class SampleOrder {
 public:
  // `samples` at least 1. Without `shuffle` every epoch is 0, 1, 2 ...
  SampleOrder(int64_t samples, uint64_t seed, bool shuffle);

  int64_t at(int64_t position) const { return at(position / samples_, position % samples_); }
  int64_t at(int64_t epoch, int64_t index) const;
  int64_t samples() const { return samples_; }

 private:
  int64_t samples_;
  uint64_t seed_;
  bool shuffle_;
  int half_bits_;  // h
};

}  // namespace tombolo::data
