// One configuration of a sweep: what a job takes, as a row of figures.
//
//   simulate  the Plan of a job with explicit parallelism, played event by event
//   estimate  the same job by a law in closed form
//   plan      the best parallelism of a job that leaves it open
//   select    the datacenters and the number of pipelines that algorithm 1 chooses
//
// All rows of a question have the same columns; what is not known (a price that no datacenter
// names, tokens of a job without a model) is null.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "base/fields.h"
#include "base/result.h"
#include "base/value.h"
#include "decide/search/search.h"
#include "predict/cost/law.h"
#include "spec/plan/plan.h"

namespace tombolo::sweep {

enum class SweepAsk { kSimulate, kEstimate, kPlan, kSelect };
constexpr auto enum_names(SweepAsk) {
  return std::to_array<EnumName<SweepAsk>>({{SweepAsk::kSimulate, "simulate"},
                                            {SweepAsk::kEstimate, "estimate"},
                                            {SweepAsk::kPlan, "plan"},
                                            {SweepAsk::kSelect, "select"}});
}

struct SweepQuestion {
  SweepAsk ask = SweepAsk::kSimulate;
  cost::Law law = cost::Law::kTombolo;                     // of estimate and plan
  search::Objective objective = search::Objective::kTime;  // of plan
  // Of simulate: the name of a schedule instead of the job's, or "best", which searches
  // (best_schedule.h) and adds winner, baseline (the best published schedule; nothing where memory
  // holds none), baseline_s, gain, gain_without_split (over the best published one that does not
  // split) and lower_bound_s.
  std::string policy = {};
};

// The names of the figures, in order. Of all questions:
//   devices, iteration_s, sequences_per_s, tokens_per_s, cost_usd (of an iteration, WAN traffic
//   included by simulate and estimate, and by plan over several datacenters),
//   cost_per_million_tokens_usd, mfu, memory_bytes (of the fullest device)
std::vector<std::string> sweep_columns(const SweepQuestion& question);

struct SweepAnswer {
  std::vector<Value> figures;      // one per column
  std::vector<std::string> notes;  // what the answer leaves out or assumes

  bool operator==(const SweepAnswer&) const = default;
};

// `job` is what the file says, parsed; `file` is for messages and relative
// paths. Unusable and infeasible as the command of the same name; estimate is infeasible, too,
// where the devices or their memory do not suffice.
Result<SweepAnswer> answer_sweep(const Value& job, const std::string& file,
                                 const SweepQuestion& question);

// The figures of one Plan, by the schedule that it names.
Result<SweepAnswer> answer_by_simulation(const plan::Plan& plan);

}  // namespace tombolo::sweep
