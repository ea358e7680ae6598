// Single numbers out of chunks, as SparseLoCo was published (Sarfi et al. 2025): of every 4,096 numbers of a
// tensor, in its order, the 64 with the largest magnitudes, or another count of each chunk; of equal
// magnitudes the lower position. The published method cuts a matrix into squares of 64 x 64 instead.
//
//   residual = decay * residual + gradient
//   sent     = quantised(the largest of each chunk)
//   residual = residual - sent
//
// An update as bytes, little-endian, of n chosen numbers:
//
//   offset  bytes
//        0  4          "TbCU"
//        4  1          version, 1
//        5  1          values (quantise.h)
//        6  2          k, numbers of a whole chunk, 1 to 4,096; a last one of m has round(m k / 4096) or 1
//        8  8          elements of the tensor
//       16  8          zero
//       24  (3n+1)/2   positions within their chunk, 12 bits each, ascending in each chunk; the first of
//                      two numbers in the lower bits
//           ..         scales, 1 byte for 16 values; none for bf16
//           ..         codes of 16 values each, in the order of positions; behind the last one, zeros'
//
// So 1.5 bytes a number and its value: 3.5 (bf16), 2.56 (int8), 2.06 (int4), 1.81 (2bit). A message's
// size follows from length, k and values alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "perform/compress/blocks.h"
#include "perform/compress/quantise.h"

namespace tombolo::compress {

inline constexpr int64_t kChunk = 4096;
inline constexpr int64_t kChunkedLengthMax = int64_t{1} << 32;  // elements

// k for a share of all numbers: rounded, from 1 to 4,096. 0 < density <= 1.
int64_t numbers_of_chunk(double density);
// Of a tensor, with k of each whole chunk. 0 <= length <= kChunkedLengthMax.
int64_t chosen_numbers(int64_t length, int64_t per_chunk);

struct ChunkOptions {
  int64_t per_chunk = 64;  // k
  Values values = Values::kBf16;
  double decay = 1;  // of the residual before a gradient is added; SparseLoCo: 0.95
};

// Numbers of a tensor, by ascending index; the others are zero, or not known.
struct ChosenNumbers {
  int64_t length = 0;         // elements of the tensor
  std::vector<uint32_t> ids;  // indices
  std::vector<float> values;  // one for each

  bool operator==(const ChosenNumbers&) const = default;
};

// Both of one length. Returns the update as bytes. Fails, and says how many, if numbers are not finite: the
// step is void then, and so is the residual. Cost: each number once, and an exact selection within its
// chunk: about five times BlockCompressor's pass.
Result<std::vector<std::byte>> compress_chunks(const ChunkOptions& options,
                                               std::span<const float> gradient,
                                               std::span<float> residual);

// Decodes what compress_chunks() made of a tensor of `length` elements, with any k, or says why it is not
// that. Memory: at most 16 bytes for each of the message's, and none before its length was found to be
// right.
Result<ChosenNumbers> decode_chunks(std::span<const std::byte> message, int64_t length);

// The blocks of 16 in which chosen numbers lie, zero elsewhere.
Blocks blocks_around(const ChosenNumbers& chosen);

// The mean of each number over the updates that have it, times their factors, added in their order; zero if
// no update has it. All of one length, at least one update, a factor for each.
std::vector<float> mean_over_senders(std::span<const ChosenNumbers> updates,
                                     std::span<const float> factors);

}  // namespace tombolo::compress
