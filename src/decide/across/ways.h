// Which way across: one job on several datacenters, in every way that a Plan can hold.
//
//   one datacenter alone          the others stay idle; parallelism as search::best_plan finds it
//   stages in different ones      activations cross the WAN; geo::search_mixed
//   whole pipelines in each       gradients cross it, in each mode of [exchange]; layouts of one
//                                 datacenter, repeated in all of them or in a subset
//
// All are simulated, so that each row is what `tombolo simulate` says of its job. They are compared by
// time (or cost) to the same loss: the iteration times the steps that its mode needs (steps_factor.h).
// Of ways within kTie of each other the cheaper is taken, or by cost the faster: what a law cannot tell
// apart is no reason to pay.
//
// The space of whole pipelines: subsets of two and more datacenters (of more than kSubsetsOf, all and
// all but one), the `layouts` best layouts of each datacenter alone with its part of the batch and its
// best one of each tensor x pipeline x microbatch, and the settings of exchange_grid(). Where datacenters
// differ, each takes a share of the batch by its speed. Recomputation is chosen by the time in one
// datacenter. Local steps need tens of simulated iterations, so only the kLocalLayouts that are best in the
// other modes are tried, and as many that are best in a datacenter alone.
// Stages in different datacenters are searched in the same subsets, each on its own; of more than
// kSubsetsOf datacenters in all of them at once. Layouts of more than kMostPasses (a microbatch through
// a stage, in all iterations that a mode wants played) are not compared: local steps of large jobs.
//
// Tests compare small jobs with a brute-force search (ways_test.cc).
//
// Where simulating all layouts takes a core longer than kSimulateAll, those that are far behind by the
// closed form are left out (promise.h).
//
// Cost: a search per datacenter, one over all of them, and some milliseconds to seconds for each
// simulation.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "decide/across/steps_factor.h"
#include "decide/search/search.h"
#include "spec/plan/hardware.h"
#include "spec/plan/open_job.h"

namespace tombolo::across {

enum class WayKind {
  kAlone,   // one datacenter
  kStages,  // stages of a pipeline in different datacenters
  kHomes,   // whole pipelines in each datacenter
};
constexpr auto enum_names(WayKind) {
  return std::to_array<EnumName<WayKind>>(
      {{WayKind::kAlone, "alone"}, {WayKind::kStages, "stages"}, {WayKind::kHomes, "homes"}});
}

struct Way {
  WayKind kind = WayKind::kAlone;
  std::string name;    // "ashburn alone", "stages across", "gradients across, local 30"
  std::string layout;  // "ashburn 16: tensor 4, data 4, ..."
  plan::Job job;       // with everything explicit: estimate, simulate and train take it
  std::vector<std::string> datacenters;
  int64_t devices = 0;

  Seconds iteration;  // simulated
  std::optional<double> tokens_per_s, mfu;
  Bytes memory;                 // of the fullest device
  Bytes across;                 // between datacenters, an iteration
  std::optional<Dollars> cost;  // of an iteration; none where a datacenter names no price
  StepsFactor steps;
  bool within = true;     // the limits of the options
  bool on_front = false;  // no other way is both faster and cheaper

  // What a dense iteration is worth takes so long, and costs so much.
  Seconds time_per_step() const { return iteration * steps.factor; }
  std::optional<Dollars> cost_per_step() const {
    return cost ? std::optional(*cost * steps.factor) : std::nullopt;
  }
};

struct NoWay {
  std::string name;
  std::string reason;
};

// From this factor of what a cluster is on, up to the next one's, `name` is the best of what was compared;
// empty: none is within the limits.
struct WayRange {
  double from = 0;
  std::string name;
};

enum class BreakEvenAxis { kRate, kLatency, kEgress, kDevices };
constexpr auto enum_names(BreakEvenAxis) {
  return std::to_array<EnumName<BreakEvenAxis>>({{BreakEvenAxis::kRate, "wan_rate"},
                                                 {BreakEvenAxis::kLatency, "wan_latency"},
                                                 {BreakEvenAxis::kEgress, "egress_price"},
                                                 {BreakEvenAxis::kDevices, "device_price"}});
}
struct BreakEven {
  BreakEvenAxis axis = BreakEvenAxis::kRate;
  std::vector<WayRange> ranges;  // ascending, the first from 0
};

// Of what a dense iteration is worth. Ways beyond come last.
struct WayLimits {
  std::optional<Seconds> time_per_step;
  std::optional<Dollars> cost_per_step;  // a way without a price is beyond
};

inline constexpr Seconds kSimulateAll{2}, kPlayBreakEven{10};

struct WaysOptions {
  search::Objective objective = search::Objective::kTime;
  WayLimits limits;
  int threads = 1;
  bool count_steps = true;  // false: all modes need as many
  // Of the model, whose factors of sparse updates count instead of those of the law; outlives the search.
  const tune::ConvergenceProfile* profile = nullptr;
  std::vector<int64_t> local_steps;     // between outer steps, in addition to 30
  int layouts = 6;                      // of each datacenter, of stages across, repeated in others
  bool break_even = true;               // find `break_even`
  Seconds simulate_all = kSimulateAll;  // of a core; what takes longer is a contest
  std::function<void(int64_t done, int64_t all)> progress;
  // Asked by all threads now and then: true ends the search with what there is.
  std::function<bool()> stop;
  // The same for each search of stages across alone, which may take the longest; without, `stop`.
  std::function<bool()> stop_stages;
  // The same within simulations: true aborts those that have started, which otherwise run to their end.
  std::function<bool()> stop_simulations;
};

struct Ways {
  std::vector<Way> ways;       // the best of each name, best first; never empty
  std::vector<NoWay> no_ways;  // names of which nothing fits, with the reason
  std::vector<std::string> notes;
  // Layouts as found, and of each mode the one that would be the fastest without its exchange; one property of
  // all links or devices scaled. Prices where the objective is cost.
  // Empty where simulating all ways once takes a core longer than kPlayBreakEven.
  std::vector<BreakEven> break_even;
  int64_t simulated = 0;
  int64_t left_out = 0;         // layouts that were not, being far behind by the closed form
  int64_t too_large = 0;        // layouts that were not, of more than kMostPasses
  bool stopped = false;         // before all was compared
  bool stages_stopped = false;  // a search of stages across, with the best so far
};

// A job with a model, as a way: simulated, memory checked. `hardware` as in cost::make_plan.
Result<Way> way_of(WayKind kind, const std::string& name, const plan::Job& job,
                   const WaysOptions& options, const plan::Hardware* hardware = nullptr);

// Unusable: no model, what all searches refuse. Infeasible: there is no way, with the closest miss of
// each. Failed: stopped before there was one, or all are too large to simulate. Where no way is within the limits, the first is not.
Result<Ways> ways_across(const plan::OpenJob& open, const WaysOptions& options);

// The settings that are tried: the job's own first, where it has any.
std::vector<plan::Exchange> exchange_grid(const std::optional<plan::Exchange>& own,
                                          const std::vector<int64_t>& local_steps);
// "dense", "sparse 1 %", "sparse chunks", "local 30", "local 30 in 4 fragments", "sparse-local 30".
std::string exchange_text(const plan::Exchange& exchange);

inline constexpr size_t kSubsetsOf = 4;
inline constexpr double kTie = 0.005;
inline constexpr double kMostPasses = 400'000;  // a simulation takes 2.5 kB for each
inline constexpr size_t kLocalLayouts = 2;

}  // namespace tombolo::across
