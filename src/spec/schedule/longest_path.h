// The longest path through a schedule: everything happens as early as its rank, its link and its
// input allow. evaluate() draws it, makespan_of() measures it, validate() asks whether it has an
// end.
#pragma once

#include <cstddef>
#include <vector>

#include "spec/schedule/schedule.h"

namespace tombolo::schedule::detail {

struct LongestPath {
  SimDuration makespan;  // first start to last end of computations that take time
  // Per rank: the first action that can never happen; the length of its order where it finishes.
  std::vector<size_t> stopped;

  bool finished(const Schedule& schedule) const {
    for (size_t rank = 0; rank < stopped.size(); ++rank) {
      if (stopped[rank] != schedule.ranks[rank].size()) return false;
    }
    return true;
  }
};

// Of orders whose actions, messages and links are all there (validate sees to that). Appends the
// intervals to `drawing` in the order in which they were found, if there is one. Cost: O(actions),
// some 10 ns each.
LongestPath longest_path(const Schedule& schedule, const PipelineShape& shape, const Times& times,
                         trace::Trace* drawing = nullptr);

}  // namespace tombolo::schedule::detail
