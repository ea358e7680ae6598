// The blocks with the largest norms, exactly, from the bins that a scan wrote down for each.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "perform/compress/scan.h"

namespace tombolo::compress {

// Blocks [first, end).
struct BlockRange {
  int64_t first = 0, end = 0;
};

// At most `target` blocks out of `ranges`, ascending as these are: those with the largest finite
// norms that are not zero; of equal norms the lower number. keys[b] is the bin of block b and the
// histogram counts those of the ranges. Only norms of the last bin that is not wholly selected are
// computed again.
std::vector<uint32_t> largest_blocks(std::span<const float> numbers,
                                     std::span<const BlockRange> ranges,
                                     std::span<const uint16_t> keys, const Histogram& histogram,
                                     int64_t target);

}  // namespace tombolo::compress
