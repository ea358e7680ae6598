// One position of DualPipe or DualPipeV, which do the same with other stages.
#pragma once

#include <array>
#include <vector>

#include "spec/schedule/schedule.h"

namespace tombolo::schedule::detail {

struct DualPipePosition {
  RankActions order;
  std::vector<Pair> pairs;
};

// The eight steps of the reference implementation. `stages` are the two of this position, in the
// order in which its first microbatches come; `position` counts `of` of them, up to the one where
// both ways meet. The shape says how many microbatches each of the two stages has.
DualPipePosition dualpipe_position(const PipelineShape& shape, std::array<int32_t, 2> stages,
                                   int32_t position, int32_t of);

}  // namespace tombolo::schedule::detail
