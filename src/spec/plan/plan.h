// Plan: what was decided. Which layers run where, with which schedule and which knobs.
//
// The simulator predicts a Plan, the runtime performs it; neither asks for anything else. So the
// model, the cluster and the expected duration of every stage stand in it, resolved. File: JSON
// with a version (plan_file.h). Made from a job by cost::make_plan.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/check.h"
#include "spec/cluster/cluster.h"
#include "spec/model/model.h"
#include "spec/plan/hardware.h"
#include "spec/plan/settings.h"
#include "spec/plan/stage_cost.h"

namespace tombolo::plan {

// Where stage durations come from; printed with every figure that rests on them.
enum class CostSource { kStageTimes, kProfile, kRoofline };
constexpr auto enum_names(CostSource) {
  return std::to_array<EnumName<CostSource>>({{CostSource::kStageTimes, "stage-times"},
                                              {CostSource::kProfile, "profile"},
                                              {CostSource::kRoofline, "roofline"}});
}

struct Stage {
  model::Slice slice;
  StageCost cost;
  Bytes state;        // weights, gradients and optimizer
  Bytes activations;  // kept per micro-batch in flight
  Bytes gradients;    // what replicas of this stage sum once per iteration

  bool operator==(const Stage&) const = default;
};

// One rank and its device: device `device` of node `node` in a datacenter. Its stage is its
// position in the pipeline; with virtual stages it holds several of the Plan's stages
// (position_of).
//
// Ranks are numbered as Megatron's order "tp-cp-ep-dp-pp" does, innermost first:
//   rank = stage x data + replica
// Replicas of a stage sit in one datacenter, where they sum their gradients.
struct Placement {
  int32_t rank = 0;
  int32_t stage = 0;
  std::string datacenter;
  int64_t node = 0;
  int64_t device = 0;
  int32_t replica = 0;  // which pipeline

  bool operator==(const Placement&) const = default;
};

// A schedule that was found rather than named: what tombolo simulate --policy best writes into the
// Plan, so that what was predicted is what is performed. Actions stand in text (action/action.h).
struct GivenSchedule {
  std::string name;  // of its family, as in "atlas, 6 in flight"
  std::vector<std::string>
      ranks;  // ranks[r]: "0F0 0F1 0B0 ...": computations, and the receives that an R waits for
  // Where DP-cells share the WAN in time: the transfers of one boundary, one direction and one
  // cell, as "boundary F cell: replica.microbatch ..." or the same with B for gradients.
  std::vector<std::string> links;
  std::vector<Seconds> release;  // per replica: its first forward begins no earlier; empty: at once

  bool operator==(const GivenSchedule&) const = default;
};

struct Plan {
  std::string name;
  model::Model model;
  cluster::Cluster cluster;
  Training training;
  Optimizer optimizer;
  Parallelism parallelism;
  CostSource cost_source = CostSource::kRoofline;
  std::vector<Stage> stages;     // stages[s] is pipeline stage s; pipeline x virtual_stages
  std::vector<Placement> ranks;  // ranks[r].rank == r
  Bytes boundary;                // one micro-batch between two stages
  std::optional<Seconds>
      wan_transfer;     // [stage_times].transfer: occupancy of a WAN link by one node pair
  Seconds wan_latency;  // [stage_times].latency: on top of it
  std::optional<int64_t> in_flight;  // [stage_times].in_flight: micro-batches a rank has memory for
  std::optional<GivenSchedule> given;        // instead of building parallelism.schedule by its name
  std::vector<MeasuredLink> measured_links;  // from the hardware file; for prediction only
  std::optional<Data> data;
  Run run;
  std::optional<Checkpoint> checkpoint;

  int64_t microbatches() const {
    CHECK(training.micro_batch >= 1 && parallelism.data >= 1, "micro-batches of {} in {} pipelines",
          training.micro_batch, parallelism.data);
    return training.global_batch / (training.micro_batch * parallelism.data);
  }
  int32_t replicas() const { return static_cast<int32_t>(parallelism.data); }
  // Where stage s lies in its pipeline; a rank holds several stages where there are virtual ones.
  int32_t position_of(int32_t stage) const {
    return plan::position_of(layout_of(parallelism.schedule), stage,
                             static_cast<int32_t>(parallelism.pipeline));
  }
  int32_t rank_of(int32_t stage, int32_t replica) const {
    CHECK(stage >= 0 && stage < std::ssize(stages) && replica >= 0 && replica < replicas(),
          "there is no stage {} of pipeline {}", stage, replica);
    return position_of(stage) * replicas() + replica;
  }
  std::vector<int32_t> replicas_of(int32_t stage) const;  // their ranks, ascending
  // Whether recomputation is worth anything: the last of several stages runs B right after F, while
  // its activations are still there.
  bool may_recompute(size_t stage) const {
    CHECK(stage < stages.size(), "stage {} of {}", stage, stages.size());
    return stages.size() == 1 || stage + 1 < stages.size();
  }
  const cluster::Datacenter& datacenter_of(int32_t rank) const;
  const cluster::Device& device_of(int32_t rank) const { return datacenter_of(rank).device; }
  bool operator==(const Plan&) const = default;
};

// Unusable where the parts do not fit together: ranks, stages and layers must cover each other,
// replicas of a stage share a datacenter, and neighbours in different datacenters need a link.
// Cost: O(ranks + stages).
Status validate(const Plan& plan);

// How bytes get from one rank to another.
struct Channel {
  bool wan = false;
  Seconds latency;                   // one way
  BytesPerSecond rate;               // of one flow alone
  std::optional<Seconds> occupancy;  // given instead of size / rate ([stage_times])
  std::string link;                  // "oregon -> paris", "oregon" (inside)

  // How long `size` occupies the channel; it has arrived `latency` later.
  Seconds serialisation(Bytes size) const { return occupancy ? *occupancy : size / rate; }
};

// As the cluster file describes it: what the runtime emulates. CHECKs that the ranks differ and
// that a WAN link exists where one is needed (make_plan saw to that).
Channel channel_between(const Plan& plan, int32_t from, int32_t to);

// As measured, where the Plan carries a measurement: what the simulator expects.
Channel expected_channel(const Plan& plan, int32_t from, int32_t to);

// A transfer of a DP-cell that shares the WAN in time: it is cut in equal parts, which the nodes of
// the cell's pipelines carry side by side (pipelines on one node share its part of the WAN).
// Scattering the parts inside the sender's datacenter and gathering them in the receiver's add
// latency (they leave the WAN free for others); what the path allows all node pairs together is the
// limit of the rate. For WAN channels only.
Channel shared_channel(const Plan& plan, int32_t from, int32_t to);

}  // namespace tombolo::plan
