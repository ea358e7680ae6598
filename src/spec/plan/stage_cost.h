// What one pipeline stage takes for one microbatch: the times that a Plan carries for each stage.
//
// Who says so: [stage_times] of the job, a hardware file, or a law (predict/cost).
#pragma once

#include <optional>

#include "base/units.h"

namespace tombolo::plan {

struct StageCost {
  Seconds forward;    // one micro-batch
  Seconds backward;   // one micro-batch, without recomputation
  Seconds recompute;  // zero where activations are kept
  Seconds update;     // optimizer step, once per iteration
  Seconds reduce;     // sum of gradients among the replicas, once per iteration; zero without
  // Of `backward`, what the weights' gradients take, which zero-bubble schedules let wait; left
  // out: not known, half.
  std::optional<Seconds> backward_weight = {};

  bool operator==(const StageCost&) const = default;
};

template <class Archive>
void describe(Archive& a, StageCost& cost) {
  a.required("forward", cost.forward);
  a.required("backward", cost.backward);
  a.optional("recompute", cost.recompute);
  a.optional("update", cost.update);
  a.optional("reduce", cost.reduce);
  a.optional("backward_weight", cost.backward_weight);
  a.check(!cost.backward_weight ||
              (*cost.backward_weight >= 0_s && *cost.backward_weight <= cost.backward),
          "backward_weight", "is the part of a backward that computes the gradients of the weights",
          "at most backward, or leave it out: half");
}

}  // namespace tombolo::plan
