// Plans over several datacenters and kinds of devices: which to use, in which order, and what each
// stage holds.
//
// A plan has d equal pipelines of p stages. Each stage with all its replicas lies in one datacenter
// (decision 10), so only activations cross the WAN. Open are
//
//   the datacenters, any subset, and their order along the pipeline
//   stages per datacenter, 1 up to what its devices have room for
//   layers per stage: slower devices get fewer
//   tensor parallelism per kind of device, within a scale-up domain
//   data parallelism, microbatch, recomputation, ZeRO 0 or 1
//
// An iteration takes what the law `mixed-pipeline` says of the stages, which a MixedLaw prices. The
// search is exhaustive but for orders of seven datacenters and more (nearest neighbours, improved
// by reversing parts) and for what bounds cut off, which is never the best plan:
//
//   time  no partition has a shorter period than one that fills every stage with layers at its
//         device's best rate, none a shorter round trip than the fastest devices could have
//   cost  every device that is held is paid for as long as the iteration lasts
//   memory  a stage q from the end keeps q microbatches; where all stages together hold fewer
//         layers than the model has, nothing fits
//
// By time all subsets, orders and numbers of stages of a setting are first looked at together
// (mixed_scout.h): that finds good plans, in orders of any number of datacenters, and bounds that are
// near them. Then for each setting (tensor, data, microbatch, recomputation, ZeRO) and order the best
// split is found exactly (mixed_partition.h). Settings are taken in waves, most promising first, so the
// answer does not depend on the number of threads.
//
// Left out: virtual stages, context and expert parallelism, whole pipelines per datacenter with
// gradients across the WAN.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "decide/geo/mixed_law.h"
#include "decide/search/finals.h"
#include "decide/search/search.h"
#include "predict/cost/stage_laws.h"
#include "spec/plan/open_job.h"

namespace tombolo::geo {

// One row of the placement.
using MixedStage = cost::PlacedStage;

struct MixedPlan {
  std::vector<MixedStage> stages;
  int64_t data = 1;
  int64_t micro_batch = 1;
  int64_t microbatches = 1;  // of each pipeline
  int64_t zero = 0;
  model::Recompute recompute = model::Recompute::kNone;
  bool sequence_parallel = false;  // where tensor > 1

  cost::MixedIteration time;         // the closed form
  std::optional<Seconds> simulated;  // what counts where it is known (decide/search/finals.h)
  int64_t devices = 0;
  double tokens_per_second = 0;
  double mfu = 0;  // operations of the model / (peak of the devices in use x iteration)
  // Of the devices, for one iteration; none where a datacenter in use names no price.
  std::optional<Dollars> price;
  Dollars egress;                                          // of WAN traffic, for one iteration
  double score = std::numeric_limits<double>::infinity();  // the objective; smaller is better

  Seconds iteration() const { return simulated.value_or(time.iteration); }
  std::optional<Dollars> cost() const { return price ? std::optional(*price + egress) : price; }
};

// Why a value lost, as a sentence: "recompute full: 12.9 s, 8.0 % more", "recompute none: memory
// holds 61 of 96 layers; ...", "microbatch 8: at least 14.1 s" (cut by its bound).
struct MixedWhyNot {
  std::string axis;   // "recompute"
  std::string value;  // "full"
  std::string reason;
  double score = std::numeric_limits<double>::infinity();  // at least; infinite: nothing fits

  std::string family() const { return axis + " " + value; }
};
// For people: of each axis what came closest, and the first that does not fit.
std::vector<MixedWhyNot> short_list(const std::vector<MixedWhyNot>& all);

struct MixedOptions {
  search::Objective objective = search::Objective::kTime;
  int top = 5;
  int threads = 1;
  bool prune = true;  // without, bounds cut nothing
  // With objective time, jobs with at least this many datacenters are scouted first (mixed_scout.h). With
  // fewer, scouting takes longer than it saves. A search that completes gives the same answer either way.
  size_t scouted_from = 5;
  search::Finals finals;
  std::function<void(int64_t done, int64_t all)> progress;  // of the settings, between waves
  // Asked by all threads, at least at each order of the datacenters: true ends the search with the best
  // so far, once there is one.
  std::function<bool()> stop;
};

struct MixedResult {
  std::vector<MixedPlan> top;  // best first, at most one for each setting and order
  int64_t settings = 0;        // of which
  int64_t settings_cut = 0;    // by their bound
  int64_t evaluated = 0;       // stages per datacenter for which layers and memory were worked out
  int64_t feasible = 0;        // of these, with a plan better than those before
  std::vector<MixedWhyNot> why_not;
  search::FinalCounts finals;
  std::vector<std::string> notes;
  // By how much a plan that was not looked at might score less, as a share of its score: 0 where the
  // search came to its end.
  double gap = 0;
  bool stopped = false;
};

// Unusable: no model, parallelism that this search does not know, no datacenter, a fixed number
// that nothing can meet. Infeasible: nothing fits; the message has the closest miss. The order of the
// datacenters changes nothing.
Result<MixedResult> search_mixed(const plan::OpenJob& open, const MixedOptions& options);

// The job with this plan made explicit.
plan::Job with_plan(plan::Job job, const MixedPlan& plan);

// The same by another law than `tombolo`.
Result<MixedResult> search_mixed(const plan::OpenJob& open, const MixedLaw& law,
                                 const MixedOptions& options);

}  // namespace tombolo::geo
