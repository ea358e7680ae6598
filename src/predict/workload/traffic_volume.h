// How many bytes one device of a stage hands to the others in one iteration, by kind. Where pipelines
// have different numbers of microbatches, of one that has the mean of them.
//
// The letters are those of docs/laws/traffic.md: microbatches of b sequences of s tokens, m of
// them per pipeline, hidden size h, numbers of w bytes; tensor t, context c, data d, expert e.
// D = b s h w / c is what a tensor-parallel group shares per operation.
//
// Sources: Korthikanti et al. 2022, section 4 (tensor, sequence), Narayanan et al. 2021 (pipeline),
// Rajbhandari et al. 2020 (ZeRO), Wang et al. 2023, section 3 (rail-only). Cost: O(layers).
#pragma once

#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "predict/cost/volume.h"
#include "spec/plan/job.h"

namespace tombolo::workload {

// Of a collective among n devices, `gathered` is the sum over its all-gathers and reduce-scatters
// of what is complete at their end or start; a device sends (n-1)/n of it.
struct StageVolume {
  Bytes tensor;       // gathered
  Bytes context;      // gathered: keys and values, and their gradients
  Bytes expert;       // to each other device of an expert group
  Bytes data;         // gathered: gradients, and parameters with ZeRO
  Bytes expert_data;  // gathered: the same, of experts that are split
};

struct TrafficVolume {
  std::vector<StageVolume> stages;
  Bytes boundary;      // from a device to its peer in the next chunk of layers, and as much back
  int64_t chunks = 1;  // per device: virtual stages
  bool folded =
      false;  // the last chunk lies where the first does; else each device's next lies after its first
  Bytes tied;  // between the devices that hold copies of a tied embedding, each way
  // The same of all tensor ranks together: where stages' degrees differ no device has a single peer.
  Bytes whole_boundary, whole_tied;
  int64_t experts = 1;             // degree
  std::vector<std::string> notes;  // what was left out, one sentence each
};

// What a microbatch moves, in the terms of one device of `tensor`.
cost::MicrobatchVolume microbatch_volume(const plan::Job& job, int64_t tensor);

struct VolumeOptions {
  // With sequence parallelism Megatron-LM gathers the inputs of two products a layer once more in
  // the backward pass, where it would otherwise have to keep them (Korthikanti et al. 2022, section
  // 4.2.2). The rail-only paper and estimates do not count them.
  bool gather_again = false;
};

// Unusable: a job without model, fewer layers than chunks, experts that cannot be divided.
Result<TrafficVolume> traffic_volume(const plan::Job& job, const VolumeOptions& options);

}  // namespace tombolo::workload
