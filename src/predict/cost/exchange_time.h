// How long replicas in several datacenters take to exchange the gradients of a stage: the law
// `gradient-exchange`.
#pragma once

#include <cstdint>
#include <vector>

#include "base/units.h"
#include "spec/plan/plan.h"

namespace tombolo::cost {

// All gradients of a stage at once, when all replicas begin together and nobody else sends: the
// rounds of schedule/gradient_exchange.h one after the other, each as long as its slowest message,
// or as its fullest card, pair of nodes or path. With k replicas in each of two datacenters, S
// bytes,
//
//   T = 2 (alpha_in + (k-1)/k S / B_in) + alpha + S / (k B);  the first two not for k = 1
//
// Exact where every replica begins and ends each round with the others, as in that formula; else a
// lower bound. docs/laws/gradient_exchange.md. Cost: O(messages).
Seconds exchange_alone(const plan::Plan& plan, int32_t stage);

// One replica in each of two datacenters, the whole model on each, M micro-batches.
struct TwoReplicas {
  int64_t layers = 1;  // L equal ones, a group each; all times and bytes are those of all L
  int64_t microbatches = 1;
  Seconds forward, backward, update;
  Seconds serialisation;  // S / B: of all gradients over the link
  Seconds latency;        // one way
};

// The period without overlap, or with one group: T = M (f + b) + S/B + alpha + u. Exact.
Seconds period_in_turn(const TwoReplicas& what);

// With overlap, where the link is the bottleneck. It is busy from the end of the last layer's
// backward on; the last layer goes first, then, as all are there by now, the others in the order of
// need, and the last but one comes last:
//
//   T = M (f + b) + S/B + alpha + u/L - (L-1)/L b - (L-2)/L f
//
// Exact for L >= 2, a layer that takes the link (L-1)/L b or more, and (f + u)/L at most: CHECKed.
Seconds period_of_a_busy_link(const TwoReplicas& what);

}  // namespace tombolo::cost
