// The blocks with the largest norms, exactly, from the bins that a scan wrote down for each.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "perform/compress/scan.h"

namespace tombolo::compress {

// At most `target` blocks of `numbers`, ascending: those with the largest finite norms that are not
// zero; of equal norms the lower number. keys[b] is the bin of block b and histogram counts them.
// Only norms of the last bin that is not wholly selected are computed again.
std::vector<uint32_t> largest_blocks(std::span<const float> numbers, std::span<const uint16_t> keys,
                                     const Histogram& histogram, int64_t target);

}  // namespace tombolo::compress
