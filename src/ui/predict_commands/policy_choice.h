// `tombolo simulate --policy`: another schedule than the job's, by its name or the best there is.
#pragma once

#include <optional>
#include <ostream>

#include "base/value.h"
#include "decide/schedule_search/best_schedule.h"
#include "decide/schedule_search/schedule_variant.h"
#include "predict/strand/pair_offer.h"
#include "spec/plan/plan.h"
#include "ui/predict_commands/predict_commands.h"

namespace tombolo::predict_commands {

// How a schedule that was found for planned times does under measured ones.
struct Adjustment {
  schedule_search::Straggler slowest;
  SimDuration planned;  // the old schedule, under the times it was found for
  SimDuration before;   // the old schedule, under the measured times
};

struct ChosenPolicy {
  plan::Plan plan;
  std::optional<schedule_search::BestSchedule> best;  // of --policy best
  std::optional<Adjustment> adjustment = {};          // of --measured
  std::optional<schedule_proof::Exact> proof = {};    // of --prove
  std::optional<strand::PairOffer> strands = {};      // where layers communicate inside
};

// The Plan with the pairs of its folded schedule co-executed as strands of the job's layer take them.
// Infeasible, with the reason, where they should run one after the other; unusable where the
// schedule has no pairs, or the stages were not priced by the law.
Result<ChosenPolicy> with_strands(const SimulateOptions& options, plan::Plan plan);

// Unusable: an unknown name, a layout that the cluster has no links for, a trace of something else.
// Infeasible: it does not fit into memory, or nothing does. Unusable as well: too much to prove.
Result<ChosenPolicy> choose_policy(const SimulateOptions& options);

void print_policy(std::ostream& out, const ChosenPolicy& chosen);
Value policy_json(const ChosenPolicy& chosen);

}  // namespace tombolo::predict_commands
