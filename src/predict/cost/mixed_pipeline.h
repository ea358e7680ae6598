// Law `mixed-pipeline`: how long 1F1B takes where stages differ and transfers take time.
//
//   T = sum over stages of (f + b) + sum over boundaries of 2 c          fill and drain
//     + (m - 1) period
//     + end                                                            see below
//   period = max over runs of neighbouring stages i..j of
//            [sum of (f + b) + sum of 2 c over the boundaries inside] / (j - i + 1)
//
// One stage alone gives the slowest stage. Longer runs matter where transfers are slow: neighbours
// i and i+1 hold one microbatch more and less, so that two microbatches pass both of them and
// come back while each works once on both. By Hall's theorem for intervals the same number is the
// smallest load to which stages can be brought when each boundary charges its 2 c to the two stages
// next to it, in any proportion: a slow link costs least between stages that have time to spare.
// Equal stages and free transfers: (m + p - 1)(f + b).
//
// The end is what the slowest stage needs for its gradients and its optimizer, once per iteration. The
// first stage's is longer where it holds a copy of a tied embedding: its gradients are the last to be
// there, and must reach the last stage, over the WAN.
//
// The period is exact (the greatest mean of a cycle of 1F1B's event graph). T is an estimate from
// above in all but odd cases; at_most() is a bound that holds always. Derivation and measured gaps:
// docs/laws/mixed_pipeline.md.
#pragma once

#include <cstdint>
#include <span>

#include "base/units.h"

namespace tombolo::cost {

// One microbatch on one stage; recomputation belongs to backward.
struct StagePass {
  Seconds forward;
  Seconds backward;
  Seconds total() const { return forward + backward; }
};

// One microbatch between two stages, in either direction.
struct Hop {
  Seconds transfer;   // until it has arrived, latency included
  Seconds exposed;    // of that, what the steady state waits for: less where a stack hides it
  Seconds occupancy;  // how long it keeps the link from the next one
};

// hops[s] lies between stages s and s + 1. Cost: O(stages^2).
Seconds period(std::span<const StagePass> stages, std::span<const Hop> hops);

// Sum of all passes and transfers: one microbatch there and back.
Seconds round_trip(std::span<const StagePass> stages, std::span<const Hop> hops);

// The law, without the gradient all-reduce and the optimizer.
Seconds mixed_pipeline(std::span<const StagePass> stages, std::span<const Hop> hops,
                       int64_t microbatches);

// An iteration of such a pipeline and what it is made of, all that is printed of one.
struct MixedIteration {
  Seconds round_trip;
  Seconds period;
  Seconds end;        // gradients and optimizer of the stage that takes longest over them
  Seconds iteration;  // round_trip + (microbatches - 1) period + end
};
// ends[s]: of each stage, once per iteration, from when the first stage has done its passes.
MixedIteration mixed_iteration(std::span<const StagePass> stages, std::span<const Hop> hops,
                               std::span<const Seconds> ends, int64_t microbatches);

}  // namespace tombolo::cost
