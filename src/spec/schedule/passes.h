// Passes: each refines a schedule by one idea. build() runs them one after the other.
#pragma once

#include "spec/schedule/schedule.h"

namespace tombolo::schedule {

// Whether a recomputation waits for the gradient like its backward, as torch's checkpointing does,
// or runs ahead of it.
enum class RecomputeWhen { kWithGradient, kAhead };

// Inserts what a pipeline must send and receive: a receive right before the computation that needs
// it (for a gradient B or I; or R, where it waits), a send right after the computation that made
// it. Nothing passes between neighbouring stages of one rank.
// Pairs, of each order, stay neighbours: receives of both before them, sends behind them.
std::vector<RankActions> add_communication(const std::vector<RankActions>& compute,
                                           const PipelineShape& shape,
                                           RecomputeWhen when = RecomputeWhen::kWithGradient,
                                           const std::vector<std::vector<Pair>>& pairs = {});

// The pipeline `replicas` times side by side: an order, or its pairs, per rank from one per position.
template <class T>
std::vector<T> replicate(const std::vector<T>& positions, const PipelineShape& shape) {
  std::vector<T> ranks;
  for (int32_t rank = 0; rank < shape.ranks() && !positions.empty(); ++rank) {
    ranks.push_back(positions[static_cast<size_t>(rank / shape.replicas)]);
  }
  return ranks;
}

// Appends one optimizer update per stage of each rank, after the gradient all-reduces where there
// are replicas.
void add_update(std::vector<RankActions>& ranks, const PipelineShape& shape);

}  // namespace tombolo::schedule
