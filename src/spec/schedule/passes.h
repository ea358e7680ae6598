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
std::vector<Order> add_communication(const std::vector<Order>& compute, const Shape& shape,
                                     RecomputeWhen when = RecomputeWhen::kWithGradient);

// The pipeline `replicas` times side by side: an order per rank from an order per position.
std::vector<Order> replicate(const std::vector<Order>& positions, const Shape& shape);

// Appends one optimizer update per stage of each rank, after the sums of gradients where there are
// replicas.
void add_update(std::vector<Order>& ranks, const Shape& shape);

}  // namespace tombolo::schedule
