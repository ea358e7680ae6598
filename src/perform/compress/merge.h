// The sum of several sparse updates of one tensor, without a dense tensor in between.
//
// For each block, in ascending order, the contributions are added in the order of the updates, so
// all ranks that merge the same updates in the same order have the same bits. The result also says
// how many updates had a block, because SparseLoCo takes the mean over these. Cost: every value
// once, read and written; for each block as many comparisons as there are updates, so
// O(updates * blocks).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "perform/compress/blocks.h"

namespace tombolo::compress {

struct Merged {
  Blocks blocks;
  std::vector<uint16_t> senders;  // of each block, at least 1
};

// sum of factors[i] * updates[i]; no factors: of the updates. All of one length, at most 65,535 of
// them, ids ascending. `to` keeps its memory.
void merge(std::span<const Blocks> updates, std::span<const float> factors, Merged& to);

// Divides each block by its senders.
void divide_by_senders(Merged& merged);

}  // namespace tombolo::compress
