#include "perform/data/sample_order.h"

#include <array>
#include <bit>

#include "base/check.h"
#include "base/random.h"

namespace tombolo::data {
namespace {

constexpr size_t kRounds = 8;

// The last steps of SplitMix64: every bit of the result depends on every bit of the word.
uint64_t mixed(uint64_t word) {
  word = (word ^ (word >> 30)) * 0xbf58476d1ce4e5b9;
  word = (word ^ (word >> 27)) * 0x94d049bb133111eb;
  return word ^ (word >> 31);
}

}  // namespace

SampleOrder::SampleOrder(int64_t samples, uint64_t seed, bool shuffle)
    : samples_(samples), seed_(seed), shuffle_(shuffle) {
  CHECK(samples >= 1, "an order of {} samples", samples);
  half_bits_ = (std::bit_width(static_cast<uint64_t>(samples - 1)) + 1) / 2;
}

int64_t SampleOrder::at(int64_t epoch, int64_t index) const {
  CHECK(epoch >= 0 && index >= 0 && index < samples_, "sample {} of {} in epoch {}", index,
        samples_, epoch);
  if (!shuffle_ || samples_ == 1) return index;
  Random random = Random(seed_).stream(fmt::format("data/epoch/{}", epoch));
  std::array<uint64_t, kRounds> keys;
  for (uint64_t& key : keys) key = random.next();
  const uint64_t mask = (uint64_t{1} << half_bits_) - 1;
  auto word = static_cast<uint64_t>(index);
  do {
    uint64_t left = word >> half_bits_, right = word & mask;
    for (const uint64_t key : keys) {
      const uint64_t next = left ^ (mixed(right ^ key) & mask);
      left = right;
      right = next;
    }
    word = left << half_bits_ | right;
  } while (word >= static_cast<uint64_t>(samples_));
  return static_cast<int64_t>(word);
}

}  // namespace tombolo::data
