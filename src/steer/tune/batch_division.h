// How a batch is divided among pipelines of different speeds, so that all end at about the same time:
// before a run by predicted speeds (cost/batch_by_speed.h), and in it by those that ranks report
// (batch_controller.h).
//
// A pipeline with m microbatches takes first + (m - 1) next. The division is the best one: no microbatch moved
// from one pipeline to another ends the slowest of them earlier.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/units.h"

namespace tombolo::tune {

// Of one pipeline.
struct Pace {
  Seconds first;  // one microbatch there and back
  Seconds next;   // each further one
  Seconds of(int64_t microbatches) const {
    return first + next * static_cast<double>(microbatches - 1);
  }
};

// Divides `microbatches` among these pipelines, at least `least` each, which is 1 or more. CHECKs that there are
// enough. A pipeline with fewer than it has stages holds fewer activations, and needs more memory when it gets more:
// where numbers change, `least` is the number of stages. Cost: a hundred passes over the pipelines.
std::vector<int64_t> divide_by_pace(std::span<const Pace> paces, int64_t microbatches,
                                    int64_t least = 1);

}  // namespace tombolo::tune
