// What an iteration of a job takes, before anything is built: time, utilisation, memory, price.
//
// In contrast to a Plan, an estimate may have parallelism that cannot be simulated or performed yet:
// it needs the job's numbers and a law in closed form. It also answers where the job would not fit
// into memory or the cluster has too few devices, and says so. What the law does not know is
// refused by name where the answer would be wrong, and listed in `notes` where it is merely left
// out.
//
// Which degrees lie inside a scale-up domain follows [parallelism].order, innermost first: with
// "tp-cp-ep-dp-pp" tensor parallelism fills scale_up.domain, what is left of it goes to context,
// data and then to pipeline, and the rest is in the network (cost::lay_out).
//
// Pipelines over several datacenters, or with different tensor degrees, are laid out and priced as
// a Plan first and then stage by stage (cost::predict_plan), which is what `tombolo plan` prints of
// them. There too few devices are infeasible.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "predict/cost/configuration.h"
#include "predict/cost/device_memory.h"
#include "predict/cost/iteration.h"
#include "predict/cost/law.h"
#include "predict/cost/stage_laws.h"
#include "predict/published/error_band.h"
#include "spec/plan/job.h"

namespace tombolo::estimate {

struct Estimate {
  cost::Law law = cost::Law::kTombolo;
  std::string law_source;  // its paper, or where it is derived
  cost::Configuration configuration;
  cost::GroupPlacement layout;
  // Of each pipeline; where they differ, of the one that has most, or by the law rail-only the mean.
  int64_t microbatches = 0;
  std::vector<int64_t> microbatches_per_replica;  // empty: all alike
  int64_t devices = 0;                            // that it takes
  int64_t devices_in_cluster = 0;                 // it may need more
  cost::IterationTime parts;                      // zero where stages_apart says more
  // Of a pipeline over several datacenters or with different tensor degrees, which has no one layout.
  std::optional<cost::PlanPrediction> stages_apart;
  Seconds iteration;
  bool exchange_played = false;  // by the simulator: no closed form is behind the iteration
  std::optional<published::ErrorBand> band;
  // Operations of the model / (peak x devices x iteration), and with those done again for
  // recomputation; none of times that are imagined ([stage_times]), as of a Plan (cost::mfu_of).
  std::optional<double> mfu, hfu;
  cost::DeviceMemory memory;  // of the fullest device
  Bytes memory_of_device;
  // Of the iteration, WAN traffic included; none where a datacenter in use names no price.
  std::optional<Dollars> price;
  std::vector<std::string> notes;  // what was assumed or left out, one sentence each

  bool fits() const { return memory.total() <= memory_of_device; }
};

// The iteration of a job as `tombolo simulate` plays it, nearer to the schedule than the closed form
// where stages differ or transfers are slow; nothing where there is no Plan of it, or where a core
// would take longer than `at_most` (sim::kPassesPerSecond).
std::optional<Seconds> simulate_within(Seconds at_most, const plan::Job& job);

// Unusable: a job without model, parallelism the law does not know, a batch that cannot be divided,
// fewer layers than stages; with the law `rail-only` more datacenters than one. Takes microseconds, or
// what the simulator takes for the exchanges that have no closed form;
// with an error band (law `tombolo`, `with_band`) the published runs, which are of one cluster
// each, are read and predicted, too: some 20 ms.
Result<Estimate> estimate(const plan::Job& job, cost::Law law, bool with_band = false);

}  // namespace tombolo::estimate
