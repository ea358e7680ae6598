// Prefill in the bubbles, in virtual time: recorded requests against a predicted Trace, by the very
// controller that a real run has (steer/prefill).
//
// It answers how much inference a training job's GPUs can carry in addition, how long first tokens
// take, and how many dedicated GPUs a serving fleet saves. Training keeps to its prediction here, so
// nothing is early or late, and no prompt that was placed is moved.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "base/units.h"
#include "predict/prefill_sim/request_trace.h"
#include "spec/plan/plan.h"
#include "spec/trace/trace.h"
#include "steer/prefill/placement_check.h"
#include "steer/prefill/prefill_shards.h"

namespace tombolo::prefill_sim {

// Fewer iterations than this have no period between two that have settled.
inline constexpr int64_t kIterationsMin = 4;

// The trace of requests is repeated until this many periods have passed.
inline constexpr int64_t kPeriodsMin = 10;

struct PrefillRunOptions {
  double scale = 1;  // of the load: requests arrive this many times as fast
  bool suspension = true;
  bool batch = false;     // all requests queue instead of being refused
  std::string decode;     // datacenter of the decode workers; empty: that of each prompt's pipeline
  bool dedicated = true;  // find out how many GPUs of its own this saves
  bool check = false;     // add the placements up again
};

struct PrefillReport {
  prefill::GapLengths gaps;
  SimDuration period;
  int64_t gpus = 0;
  int64_t pipelines = 0;
  int64_t depth_min = 0, depth_max = 0;
  Bytes shard_max;
  SimDuration span;  // whole periods up to the last request: what shares and rates are of

  int64_t requests = 0;
  int64_t accepted = 0;
  int64_t no_window = 0, too_long = 0, no_line = 0;  // refused
  int64_t waiting = 0;                               // batch requests that were not placed
  double accepted_share() const { return requests > 0 ? real(accepted) / real(requests) : 0; }

  double utilization_before = 0;
  double utilization_after = 0;
  double ceiling = 0;       // of it; docs/laws/prefill_windows.md
  double tokens_per_s = 0;  // of accepted prompts
  // Of accepted prompts, in the order of their placement.
  std::vector<double> ttft_s, queueing_s, handed_over_s;
  std::vector<double> placement_us;  // of all: what submit() took by the clock
  // The fewest dedicated GPUs that accept as many of these requests; nullopt if not asked for.
  std::optional<int64_t> gpus_saved;
};

// The setting of the controller for a Plan: pipelines of its GPUs, times by the law `prefill`, lines
// by the cluster. Over the WAN prefill has what training leaves of a flow on average. Infeasible:
// fleet_of. Unusable: a Plan without [prefill].
Result<prefill::PrefillSetting> make_setting(const plan::Plan& plan, const trace::Trace& trace,
                                             prefill::PrefillFleet& fleet);

// `trace` is the Plan's, predicted, of kIterationsMin iterations. `clock` times submit(). Unusable:
// a decode datacenter that there is not, a scale that is not positive, or makes too many requests. Failed, with `check`: a
// placement that breaks a rule.
Result<PrefillReport> run_prefill(const plan::Plan& plan, const trace::Trace& trace,
                                  const std::vector<TracedRequest>& requests,
                                  const PrefillRunOptions& options, const Clock& clock);

}  // namespace tombolo::prefill_sim
