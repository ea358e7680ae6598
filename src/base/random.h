// Random numbers that are the same on every machine, in named streams.
//
// The standard library's distributions differ between vendors; these do not. A stream is derived
// from the seed and a name, so a new consumer does not change what the others draw:
//
//   Random jitter = Random(seed).stream("link/paris-oregon");
//
// Generator: xoshiro256** by Blackman and Vigna (2018), seeded by SplitMix64. Not for secrets.
#pragma once

#include <cstdint>
#include <string_view>

namespace tombolo {

class Random {
 public:
  explicit Random(uint64_t seed);

  // A generator that depends on this one's seed and the name only, not on how much was drawn.
  Random stream(std::string_view name) const;

  uint64_t next();             // 64 uniform bits
  double uniform();            // in [0, 1), 53 bits
  uint64_t below(uint64_t n);  // in [0, n), unbiased; n > 0
  double normal();             // mean 0, variance 1 (Box and Muller)
  uint64_t seed() const { return seed_; }

 private:
  uint64_t seed_;
  uint64_t state_[4];
};

}  // namespace tombolo
