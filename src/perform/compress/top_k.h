// The numbers of a tensor with the largest magnitudes, exactly (Aji & Heafield, 2017), and of equal magnitudes
// the lower index: Top-k, which StellaTrain (2024, 5.2) compares its blocks with.
//
//   residual = decay * residual + gradient
//   sent     = the largest of the residual
//   residual = residual - sent
//
// They travel in coordinate format, as there: little-endian, 4 bytes that say how many, then for each an index of 32
// bits and a float; ascending indices, finite values. 8 bytes a number, where blocks take 2.08.
//
// Written to compare with, not fast; 4 bytes of memory an element.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "perform/compress/chunks.h"

namespace tombolo::compress {

// `density` of `count`, rounded; at least one if the tensor has any. 0 < density <= 1.
size_t share_of(size_t count, double density);

// Appends the `k` of [begin, end) with the largest magnitudes, the lower index where they are equal; ascending.
// Numbers are not NaN.
void append_largest(std::span<const float> numbers, size_t begin, size_t end, size_t k,
                    std::vector<uint32_t>& to);

struct TopKOptions {
  double density = 0.01;  // of all numbers
  double decay = 1;       // of the residual before a gradient is added
};

// Both of one length, below 2^32. Returns the update as bytes. Fails, and says how many, if numbers are not finite: the
// step is void then, and so is the residual.
Result<std::vector<std::byte>> compress_top_k(const TopKOptions& options,
                                              std::span<const float> gradient,
                                              std::span<float> residual);

std::vector<std::byte> encode_coordinates(const ChosenNumbers& chosen);
// Indices are below `length`. Memory: as much as the message has.
Result<ChosenNumbers> decode_coordinates(std::span<const std::byte> message, int64_t length);

}  // namespace tombolo::compress
