// What a microbatch moves between the devices of a group, and of how many parameters a device sums the
// gradients: the one place where times (layer_time.h, iteration.h), memory, `traffic` and Graphs of
// operators count them. docs/laws/traffic.md.
#pragma once

#include "predict/cost/configuration.h"
#include "spec/model/model.h"

namespace tombolo::cost {

// In the terms of one device; as plain numbers, for a search asks for them by the hundred million.
struct MicrobatchVolume {
  double hidden = 0;       // D = b s h w / c, what a tensor-parallel group shares per operation
  double keys_values = 0;  // of the whole sequence, this device's heads
  double copies = 0;       // of tokens for experts, those of this device
};

// Numbers of `element_bytes`. CHECKs degrees of at least 1. Cost: a dozen products.
MicrobatchVolume microbatch_volume(const model::Model& model, const Configuration& c,
                                   double element_bytes);

// Parameters of a stage on one device, before ZeRO: those that all replicas of the stage hold, and its
// share of the routed experts, which by expert parallelism fewer replicas hold.
struct HeldParameters {
  double dense = 0;
  double experts = 0;
  double total() const { return dense + experts; }
};

// As if tensor parallelism divided all of them. Cost: O(1).
HeldParameters held_parameters(const model::Model& model, const Configuration& c,
                               const model::Slice& slice);

}  // namespace tombolo::cost
