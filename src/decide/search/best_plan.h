// `tombolo plan` for one homogeneous cluster: the best parallelism of a job, its rivals, and why
// not others.
//
//   const plan::OpenJob open = TRY(plan::read_open_job("job.toml"));
//   const BestPlan found = TRY(best_plan(open, {.top = 5}));
//   found.top[0].job      the job with everything explicit: estimate, simulate and train take it
//
// The space and its limits: space.h. The search: search.h. A configuration may leave devices idle
// where that is better by the objective, or where the numbers do not divide; `idle_devices` says
// so.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "decide/search/finals.h"
#include "decide/search/search.h"
#include "decide/search/space.h"
#include "decide/search/why_not.h"
#include "predict/cost/law.h"
#include "predict/estimate/estimate.h"
#include "spec/plan/open_job.h"

namespace tombolo::search {

struct BestPlanOptions {
  cost::Law law = cost::Law::kTombolo;
  Objective objective = Objective::kTime;
  int top = 5;
  int threads = 1;
  bool prune = true;
  bool with_band = true;  // of published runs like the best
  Finals finals;          // of the law tombolo; the others have no Plans of their own
  SpaceLimits limits;
  std::function<void(int64_t done, int64_t all)> progress;  // SearchOptions
  std::function<bool()> stop = {};                          // SearchOptions
};

struct RankedPlan {
  Candidate candidate;  // by the closed form, as the parts
  std::optional<Seconds> simulated;
  plan::Job job;
  std::vector<std::pair<std::string, Seconds>> parts;
  double tokens_per_second = 0;
  double mfu = 0;                // operations of the model over peak x devices x time
  std::optional<Dollars> price;  // of an iteration, the devices in use; the cluster may name none
  int64_t idle_devices = 0;

  Seconds iteration() const {
    return simulated.value_or(candidate.time);
  }  // what the others follow
};

struct BestPlan {
  std::vector<RankedPlan> top;  // best first, never empty
  std::vector<WhyNot> why_not;
  SearchCounts counts;
  FinalCounts finals;
  Bytes memory_of_device;
  std::string limits;                        // of the space, one sentence
  std::optional<published::ErrorBand> band;  // of the best
  std::vector<std::string> notes;            // what was assumed or left out
  // The search ended early: by the closed form nothing that was not looked at scores less by more than
  // this share, and reasons are of what was.
  bool stopped = false;
  double gap = 0;
};

// Unusable: what make_space and make_pricer refuse. Infeasible: nothing fits; the message has the
// configuration that comes closest, and the hint what would make one fit.
Result<BestPlan> best_plan(const plan::OpenJob& open, const BestPlanOptions& options);

// The best of each tensor x pipeline x microbatch that fits, best first, by the closed form alone: what a search of
// something larger tries, where not only the time here counts. The same errors; nothing fits: none.
// Cost: a search for each.
Result<std::vector<plan::Job>> best_of_each_shape(const plan::OpenJob& open,
                                                  const BestPlanOptions& options);

// "tensor 8, pipeline 4, data 2; ..." with all that differs from the plain.
std::string configuration_text(const cost::Configuration& configuration);

// That a schedule which a job asks for is not what a search compares, which knows only `searched`.
std::string note_on_schedule(layout::ScheduleKind asked, const std::string& searched);
// Where a law says so (Pricer::selective_recompute_differs).
inline constexpr const char* kSelectiveIsNotTried =
    "recompute = \"selective\" is not tried: with fused attention it is the same as none";
// One for each key of [parallelism] that says how pipelines share the WAN, with the reason.
std::vector<std::string> notes_on_wan_keys(const layout::Parallelism& asked, std::string_view why);
// Of searches over several datacenters: which keys of [parallelism] they take no account of. Such a search
// may try virtual stages, where pipelines stay in one datacenter each.
std::vector<std::string> notes_over_datacenters(const layout::Parallelism& asked,
                                                bool tries_virtual_stages);

}  // namespace tombolo::search
