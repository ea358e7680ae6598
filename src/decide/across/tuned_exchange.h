// Which density and which batch reach a loss soonest over a line, by what a convergence profile says of
// the model (steer/tune/convergence_profile.h) and what the simulator says of an iteration:
//
//   least k(d, X) t(d, X) / X       k: samples factor; t: the iteration; X: the batch of all devices
//
// This is StellaTrain's equation 5. Its equations 2 and 6, of how long a batch takes and of what a
// line carries meanwhile, are the simulator's part: pipelines, several lines and latency are in t.
//
// Source: Lim et al. 2024 (StellaTrain), section 4.2. docs/laws/tuning.md.
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "spec/plan/hardware.h"
#include "spec/plan/job.h"
#include "steer/tune/convergence_profile.h"

namespace tombolo::across {

struct TunedExchange {
  double density = 1;
  int64_t batch = 1;
  Seconds iteration;  // predicted
  double samples_factor = 1;
  double doubt = 0;  // standard deviation of the factor's logarithm

  // For what a sample teaches without compression and staleness, at the profile's reference batch.
  Seconds per_sample() const { return iteration * (samples_factor / real(batch)); }
};

struct TuningOptions {
  const plan::Hardware* hardware = nullptr;
  int threads = 0;  // 0: as many as the machine has; their number changes nothing
};

// What a job can be tuned over: batches that it divides by, from its smallest to `most`, and densities.
// Unusable: no replicas apart, whose gradients would cross a line; local steps; microbatches that are
// given one by one.
Result<tune::ProbeBounds> tuning_bounds(const plan::Job& job, int64_t most, double density_min);

// The job with sparse updates of that density, and that batch; without a density that the run changes.
plan::Job with_setting(plan::Job job, double density, int64_t batch);

// Of one setting, and of the job as it is: `dense` and staleness count as the profile's density 1.
Result<TunedExchange> priced(const plan::Job& job, const tune::ConvergenceProfile& profile,
                             const plan::Hardware* hardware = nullptr);

// The best setting within the profile's bounds; densities have two digits. A grid
// first, then steps in both from the best one, halved until neighbours differ by 3 %. Infeasible where
// no setting fits.
//
// Cost: some two hundred simulations.
Result<TunedExchange> tuned_exchange(const plan::Job& job, const tune::ConvergenceProfile& profile,
                                     const TuningOptions& options = {});

}  // namespace tombolo::across
