#include "base/random.h"

#include <xxhash.h>

#include <bit>
#include <cmath>
#include <numbers>

#include "base/check.h"

namespace tombolo {
namespace {

uint64_t split_mix(uint64_t& x) {
  x += 0x9e3779b97f4a7c15;
  uint64_t z = x;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

}  // namespace

Random::Random(uint64_t seed) : seed_(seed) {
  uint64_t x = seed;
  for (uint64_t& word : state_) word = split_mix(x);
}

Random Random::stream(std::string_view name) const {
  return Random(XXH64(name.data(), name.size(), seed_));
}

uint64_t Random::next() {
  const uint64_t result = std::rotl(state_[1] * 5, 7) * 9;
  const uint64_t t = state_[1] << 17;
  state_[2] ^= state_[0];
  state_[3] ^= state_[1];
  state_[1] ^= state_[2];
  state_[0] ^= state_[3];
  state_[2] ^= t;
  state_[3] = std::rotl(state_[3], 45);
  return result;
}

double Random::uniform() { return static_cast<double>(next() >> 11) * 0x1.0p-53; }

uint64_t Random::below(uint64_t n) {
  CHECK(n > 0, "below(0) has no answer");
  // Reject the last, incomplete block of n values, so that every remainder is equally likely.
  const uint64_t limit = ~uint64_t{0} - (~uint64_t{0} % n + 1) % n;
  uint64_t x = next();
  while (x > limit) x = next();
  return x % n;
}

double Random::normal() {
  const double u = 1.0 - uniform();  // in (0, 1]: the logarithm is finite
  const double v = uniform();
  return std::sqrt(-2 * std::log(u)) * std::cos(2 * std::numbers::pi * v);
}

}  // namespace tombolo
