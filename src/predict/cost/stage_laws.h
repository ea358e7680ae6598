// The law `tombolo` for the stages of one pipeline, each in the datacenter where it runs: what
// Plans carry, what searches over several datacenters compare, and an iteration of both in closed
// form.
//
// A stage is priced separately, under a configuration with its own tensor degree. Over several
// datacenters (`across`) it is not known how much of each a plan fills until the plan is found, so
// stragglers count by all nodes of a datacenter, and neighbouring stages are priced as if the
// pipeline had two stages.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/result.h"
#include "predict/cost/iteration.h"
#include "predict/cost/mixed_pipeline.h"
#include "predict/ledger/plan_ledger.h"
#include "spec/plan/plan.h"

namespace tombolo::cost {

// A configuration as one stage on `tensor` x context devices sees it. `across`: of a pipeline over
// several datacenters.
Configuration stage_configuration(Configuration of_all, int64_t tensor, bool across);
// Of a Plan's stage. If its replicas are in different datacenters, ZeRO shards among those of one
// datacenter: only these count as replicas, with their part of the batch.
Configuration stage_configuration(const Configuration& of_all, const plan::Plan& plan,
                                  int32_t stage, bool across);

class StageLaws {
 public:
  // One law for each datacenter. Unusable: no constants for one of them.
  static Result<StageLaws> make(const model::Model& model, const plan::Decisions& decisions);

  size_t datacenters() const { return laws_.size(); }
  bool across() const { return laws_.size() > 1; }
  // By the index of the datacenter in its cluster.
  const IterationLaw& in(size_t datacenter) const {
    CHECK(datacenter < laws_.size(), "datacenter {} of {}", datacenter, laws_.size());
    return laws_[datacenter];
  }
  // Of a rank, once per iteration, the host's time included.
  StagePrice stage(size_t datacenter, const Configuration& c, const model::Slice& slice) const;
  // From a stage to the next in the same datacenter.
  Hop inside(size_t datacenter, const Configuration& c) const;

 private:
  std::vector<IterationLaw> laws_;
};

// One end of a WAN boundary: the replicas of a stage, each on `shards` devices, side by side on the
// nodes of a datacenter.
struct WanEnd {
  const cluster::Datacenter* datacenter = nullptr;
  int64_t shards = 1;
};

// A microbatch of `size` bytes (of all shards together) between two stages of `data` replicas, which
// fill their nodes one after the other from the first device of one on. All replicas send at once:
// each has what flow_rate gives it, those on one pair of nodes share node_pair_limit, all share the
// path limit, and no replica sends faster than its devices' network. docs/laws/wan_flow.md.
Hop wan_hop(const cluster::WanLink& link, const WanEnd& from, const WanEnd& to, int64_t data,
            Bytes size);

// The same between two neighbouring ranks of a pipeline, in either direction, on the nodes that the
// Plan gives them and those that cross there as they do; or as [stage_times] say it. Nothing where
// they lie in one datacenter.
std::optional<Hop> wan_hop(const plan::Plan& plan, int32_t from, int32_t to);

// One row of a placement.
struct PlacedStage {
  int64_t stage = 0;
  std::string datacenter;
  std::string device;
  int64_t tensor = 1;
  int64_t devices = 0;  // of all its replicas that are as fast
  int64_t first_layer = 0;
  int64_t layers = 0;
  Seconds forward;      // one microbatch
  Seconds backward;     // recomputation included
  DeviceMemory memory;  // with the microbatches that 1F1B keeps there
  Bytes memory_of_device;

  bool fits() const { return memory.total() <= memory_of_device; }
};

// A whole iteration of a Plan whose stages differ.
struct PlanPrediction {
  std::vector<PlacedStage> stages;     // where the first pipeline has them
  std::vector<PlacedStage> elsewhere;  // by datacenter; on other devices of other pipelines
  MixedIteration time;  // of the pipeline that takes longest, and of the sums behind it
  int64_t devices = 0;
  FlopsPerSecond peak;               // of all of them
  ledger::Ledger ledger;             // its messages, and what an iteration costs
  std::vector<std::string> assumed;  // constants of other devices or fabrics that stood in

  // The stage of either list that lacks most memory, or else the one that needs most.
  const PlacedStage& fullest() const;
  std::vector<PlacedStage> everywhere() const;  // both lists
};

// By the law `mixed-pipeline` over the times that the Plan carries, whatever their source: what
// `tombolo plan` prints of a plan over several datacenters. Pipelines with different placements or
// different numbers of microbatches are counted separately. Transfers inside a datacenter are those
// of the law `tombolo`, those over the WAN wan_hop's, unless [stage_times] gives others. Schedules
// are counted as 1F1B.
//
// `file` is for messages. Unusable: a Plan without a model; several stages per rank. Cost:
// O(stages^2 x kinds of pipelines).
Result<PlanPrediction> predict_plan(const plan::Plan& plan, const std::string& file);

}  // namespace tombolo::cost
