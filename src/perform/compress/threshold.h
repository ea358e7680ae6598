// The smallest norm of a block that is sent, so that as many blocks are sent as were asked for.
//
// A scan learns it from the histogram of the blocks it has seen: of what is left to send, as large a
// share is wanted of them as of the blocks to come. It visits chunks of the tensor in an order of
// which every prefix is spread over the whole (multiples of the golden ratio), from another place
// each step. The first sixteenth is only scanned. During the rest the threshold is updated
// repeatedly, so an excess is made up for; at the end exactly as many blocks are taken from that
// sixteenth as are still wanted (largest_blocks.h).
//
// Thresholds of earlier steps are not needed, and would mislead: with error feedback norms grow by
// 40 % from the first step to the second and by 2.5 % at the twentieth, and where they are
// distributed normally 1 % more norm is a fifth more blocks.
#pragma once

#include <cstdint>
#include <vector>

#include "perform/compress/scan.h"

namespace tombolo::compress {

// What has to be kept of a tensor's selection between steps, and in checkpoints.
struct SelectionState {
  int64_t step = 0;         // selections made
  int64_t since_exact = 0;  // of them

  bool operator==(const SelectionState&) const = default;
};

// The norm that `wanted` of the counted blocks reach, those within a bin taken to be spread evenly:
// finite, positive. The smallest positive float where fewer than that are not zero; infinite where
// wanted <= 0.
float threshold_of(const Histogram& histogram, double wanted);

// The numbers 0 to count - 1, as a scan of this step visits them.
std::vector<int64_t> scattered(int64_t count, int64_t step);

}  // namespace tombolo::compress
