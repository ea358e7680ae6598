// How long the operators of a layer take on the shards of a rank, alone and concurrently, for an overlap profile.
//
// One microbatch goes forward through the layer and another one backward, operator by operator (layer_operators.h), in
// one order: alone, two at once where a pair of classes meets, and alone again, by turns. Each class of computation
// has one pair, with the communication of the other strand:
//
//   attention           FA with bRS2        product      FC1 with bRS1
//   attention-backward  bFA with RS1        elementwise  bLN1 with RS2      communication  RS1 with bRS2
//
// (AR without sequence parallelism). Only this rank computes; other ranks of a run on its host would take cores.
#pragma once

#include "base/result.h"
#include "spec/plan/overlap_samples.h"
#include "spec/plan/plan.h"

namespace tombolo::train {

inline constexpr int64_t kOverlapRepeatsMin = 15, kOverlapRepeatsMax = 500;

// At least `repeats_min` repeats, then as many as begin before `budget` ends, after two that warm up caches and
// allocator. Measures the first layer without experts of the first stage. Unusable: what LayerPass::check() refuses.
// CHECKs that a tensor group communicates within layers.
Result<plan::OverlapSamples> measure_overlap(const plan::Plan& plan, Seconds budget,
                                             int64_t repeats_min = kOverlapRepeatsMin);

}  // namespace tombolo::train
