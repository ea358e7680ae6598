// Profile: how long the Plan's stages take on this machine, for the hardware file; and what the machine does
// independently of a Plan, for a device file.
//
// Every stage is measured in a worker of its own, all at the same time, because that is how a run loads the machine:
// cores share caches and memory bandwidth. A worker performs whole iterations of its stage with synthetic inputs, the
// first one unmeasured.
#pragma once

#include <string>
#include <vector>

#include "base/clock.h"
#include "base/fields.h"
#include "perform/kernels/kernels.h"
#include "spec/plan/device_rates.h"
#include "spec/plan/hardware.h"
#include "spec/plan/overlap_samples.h"
#include "spec/plan/plan.h"

namespace tombolo::profile {

// Medians and interquartile ranges over microbatches (update: over iterations).
struct StageProfile {
  int32_t stage = 0;
  plan::StageCost cost;
  plan::StageCost spread;
  int64_t samples = 0;  // microbatches

  bool operator==(const StageProfile&) const = default;
};

// Runs in the worker: at least two measured iterations, one with whole backwards and one with backwards in halves, then
// alternately as many as begin before `budget` is over.
Result<StageProfile> profile_stage(const plan::Plan& plan, int32_t stage, kernels::Kernels& kernels,
                                   Clock& clock, Seconds budget);

struct ProfileOptions {
  Seconds budget = 10_s;       // per stage, all stages at once
  std::string worker_program;  // empty: tombolo-worker in the running program's folder
  std::string command;         // for the hardware file
};

// Starts a worker per stage, measures the links afterwards, and collects all of it.
Result<plan::Hardware> profile_hardware(const plan::Plan& plan, const ProfileOptions& options,
                                        Clock& clock);

// Whether the Plan has operators that can overlap here. Infeasible: shards that do not communicate within a layer.
// Unusable, naming the key: what is performed in another way than it is planned, or not on the CPU.
Status check_overlap(const plan::Plan& plan);
// How long these operators take on the shards of a rank, alone and concurrently: one worker, for at least `budget`.
Result<plan::OverlapSamples> profile_overlap(const plan::Plan& plan, const ProfileOptions& options);

struct RooflineOptions {
  int64_t threads = 1;  // of each rank
  int64_t ranks = 1;    // that measure concurrently, as the ranks of a run load the machine
  std::vector<int64_t> hidden = {256, 512, 1024};  // sizes of the layers
  Seconds budget = 5_s;                            // per rank, about
  std::string worker_program;  // empty: tombolo-worker in the running program's folder
};

// How fast matrix products, memory and layers are here, independently of a job; one per rank. Unusable: a worker
// without LibTorch.
Result<std::vector<plan::DeviceRates>> measure_devices(const RooflineOptions& options);

// "AMD EPYC 7763 64-Core Processor, 2 cores": what the figures belong to.
std::string machine_name();

template <class Archive>
void describe(Archive& a, StageProfile& profile) {
  a.required("stage", profile.stage);
  a.required("cost", profile.cost);
  a.required("spread", profile.spread);
  a.required("samples", profile.samples);
}

}  // namespace tombolo::profile
