// A sparse update of a tensor: whole blocks of 16 consecutive floats, a cache line each, by
// ascending number. Block b holds the elements 16 b to 16 b + 15. Elements of the last block beyond
// the tensor's end are zero and have no meaning.
//
// Whole lines are what memory moves anyway; one number per 16 elements makes indices nearly free on
// the wire (decision 36). Block-aligned selection: Lim et al., StellaTrain (SIGCOMM 2024), 3.2.
#pragma once

#include <cstdint>
#include <vector>

namespace tombolo::compress {

inline constexpr int64_t kBlock = 16;
inline constexpr int64_t kLengthMax = int64_t{1} << 36;  // elements: a block's number has 32 bits

// Blocks of a tensor of `length` elements, the last one perhaps cut short. 0 <= length <= kLengthMax.
int64_t blocks_of(int64_t length);

// How many blocks each of `replicas` sends of a tensor, so that all together send about `density` of
// it: the k/N rule of StellaTrain. Rounded, at least 1 where the tensor has one. 0 < density <= 1.
int64_t block_target(int64_t length, double density, int64_t replicas);

struct Blocks {
  int64_t length = 0;         // elements of the tensor
  std::vector<uint32_t> ids;  // ascending
  std::vector<float> values;  // 16 for each

  // The whole tensor, zero where there is no block.
  std::vector<float> dense() const;
  bool operator==(const Blocks&) const = default;
};

}  // namespace tombolo::compress
