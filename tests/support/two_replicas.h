#pragma once

#include <cstdint>

#include "base/check.h"
#include "base/units.h"

namespace tombolo::cost {

// One replica in each of two datacenters, the whole model on each, M microbatches.
struct TwoReplicas {
  int64_t layers = 1;  // L equal ones, a group each; all times and bytes are those of all L
  int64_t microbatches = 1;
  Seconds forward, backward, update;
  Seconds serialisation;  // S / B: of all gradients over the link
  Seconds latency;        // one way
};

// The period without overlap, or with one group: T = M (f + b) + S/B + alpha + u. Exact.
inline Seconds period_in_turn(const TwoReplicas& what) {
  return static_cast<double>(what.microbatches) * (what.forward + what.backward) +
         what.serialisation + what.latency + what.update;
}

// With overlap, where the link is the bottleneck. It is busy from the end of the last layer's
// backward on; first come, first served, the first layer goes last, and all of the next forward pass
// waits for it:
//
//   T = M (f + b) + S/B + alpha + u/L - (L-1)/L b
//
// Exact for L >= 2, a layer that takes the link (L-1)/L b or more, and (f + u)/L at most: CHECKed.
inline Seconds period_first_come(const TwoReplicas& what) {
  const double layers = static_cast<double>(what.layers);
  const Seconds layer = what.serialisation / layers;
  CHECK(what.layers >= 2 && layer >= what.backward * ((layers - 1) / layers) &&
            layer >= (what.forward + what.update) / layers,
        "{} layers of {} s each on the link do not keep it busy", what.layers, layer.value);
  return static_cast<double>(what.microbatches) * (what.forward + what.backward) +
         what.serialisation + what.latency + what.update / layers -
         what.backward * ((layers - 1) / layers);
}

// The same in the order of need: behind the last layer, as all are there by now, the first goes next
// and the last but one comes last:
//
//   T = M (f + b) + S/B + alpha + u/L - (L-1)/L b - (L-2)/L f
//
// Exact where the other is.
inline Seconds period_of_a_busy_link(const TwoReplicas& what) {
  const double layers = static_cast<double>(what.layers);
  return period_first_come(what) - what.forward * ((layers - 2) / layers);
}

}  // namespace tombolo::cost
