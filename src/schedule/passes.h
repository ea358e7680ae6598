// Passes: each refines a schedule by one idea. build() runs them one after the other.
#pragma once

#include "schedule/schedule.h"

namespace tombolo::schedule {

// Inserts what a pipeline must send and receive: a receive right before the computation that needs
// it (the first of R and B for a gradient), a send right after the computation that made it.
std::vector<Order> add_communication(const std::vector<Order>& compute, const Shape& shape);

// The pipeline `replicas` times side by side: an order per rank from an order per stage.
std::vector<Order> replicate(const std::vector<Order>& stages, const Shape& shape);

// Appends one optimizer update per rank, after the sum of gradients where there are replicas.
void add_update(std::vector<Order>& ranks, const Shape& shape);

}  // namespace tombolo::schedule
