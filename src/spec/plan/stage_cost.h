// What one pipeline stage takes for one microbatch: the times that a Plan carries for each stage.
//
// Source: [stage_times] of the job, a hardware file, or a law (predict/cost).
#pragma once

#include <optional>

#include "base/units.h"

namespace tombolo::plan {

// How long the collectives of one pass keep the device waiting: without what computation hides.
struct PassCommunication {
  Seconds tensor;
  Seconds context;
  Seconds expert;
  Seconds data;  // ZeRO 3: parameters gathered, gradients scattered

  Seconds total() const { return tensor + context + expert + data; }
  PassCommunication& operator+=(const PassCommunication& other) {
    tensor += other.tensor;
    context += other.context;
    expert += other.expert;
    data += other.data;
    return *this;
  }
  bool operator==(const PassCommunication&) const = default;
};

struct StageCost {
  Seconds forward;    // one microbatch
  Seconds backward;   // one microbatch, without recomputation
  Seconds recompute;  // zero where activations are kept
  Seconds update;     // optimizer step, once per iteration
  // Gradient all-reduce among the replicas and gather of parameters, once per iteration: from the
  // end of the last backward pass on; zero without.
  Seconds reduce;
  Seconds reduce_hidden;  // what of it runs before, during the last backward pass
  // Of `backward`, what the weights' gradients take, which zero-bubble schedules postpone; left
  // out: not known, half.
  std::optional<Seconds> backward_weight = {};
  // Parts of forward, backward and recompute.
  PassCommunication forward_communication, backward_communication, recompute_communication;

  bool operator==(const StageCost&) const = default;
};

template <class Archive>
void describe(Archive& a, PassCommunication& part) {
  a.optional("tensor", part.tensor, "of tensor parallelism");
  a.optional("context", part.context, "of context parallelism");
  a.optional("expert", part.expert, "of expert parallelism");
  a.optional("data", part.data, "of ZeRO 3: parameters gathered, gradients scattered");
  for (const auto& [key, time] :
       {std::pair{"tensor", part.tensor}, std::pair{"context", part.context},
        std::pair{"expert", part.expert}, std::pair{"data", part.data}}) {
    a.check(time >= 0_s, key, "must not be negative");
  }
}

template <class Archive>
void describe(Archive& a, StageCost& cost) {
  a.required("forward", cost.forward, "of one microbatch");
  a.required("backward", cost.backward, "of one microbatch, without recomputation");
  a.optional("recompute", cost.recompute, "of one microbatch");
  a.optional("update", cost.update, "of the optimizer, once per iteration");
  a.optional("reduce", cost.reduce,
             "gradient all-reduce and gather of parameters, once per iteration, after the last "
             "backward pass");
  if (Archive::kReads || cost.reduce_hidden > 0_s)
    a.optional("reduce_hidden", cost.reduce_hidden,
               "what of them runs during the last backward pass");
  a.check(cost.reduce_hidden >= 0_s, "reduce_hidden", "must not be negative");
  a.optional("backward_weight", cost.backward_weight,
             "of a backward, the gradients of weights; left out: half");
  a.check(!cost.backward_weight ||
              (*cost.backward_weight >= 0_s && *cost.backward_weight <= cost.backward),
          "backward_weight", "is the part of a backward that computes the gradients of the weights",
          "at most backward, or leave it out: half");
  // Rounded as text, parts may come to a little more than the whole.
  const auto part = [&](const char* key, PassCommunication& communication, Seconds pass) {
    if (Archive::kReads || communication.total() > 0_s)
      a.optional(key, communication, "of the pass, what its collectives keep the device waiting");
    a.check(communication.total() <= pass * 1.000001, key, "is part of the pass, and takes longer");
  };
  part("forward_communication", cost.forward_communication, cost.forward);
  part("backward_communication", cost.backward_communication, cost.backward);
  part("recompute_communication", cost.recompute_communication, cost.recompute);
}

}  // namespace tombolo::plan
