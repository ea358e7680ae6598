// Plan: what was decided. Which layers run where, with which schedule and which knobs.
//
// The simulator predicts a Plan, the runtime performs it; neither asks for anything else. So the
// model, the cluster and the expected duration of every stage stand in it, resolved. File: JSON
// with a version (plan_file.h). Made from a job by cost::make_plan.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "base/check.h"
#include "spec/cluster/cluster.h"
#include "spec/layout/placement.h"
#include "spec/model/model.h"
#include "spec/plan/decisions.h"
#include "spec/plan/given_schedule.h"
#include "spec/plan/hardware.h"
#include "spec/plan/pair_cost.h"
#include "spec/plan/stage_cost.h"

namespace tombolo::plan {

// Where stage durations come from; printed with every figure that rests on them.
enum class CostSource { kStageTimes, kProfile, kTombolo, kRoofline };
constexpr auto enum_names(CostSource) {
  return std::to_array<EnumName<CostSource>>({{CostSource::kStageTimes, "stage-times"},
                                              {CostSource::kProfile, "profile"},
                                              {CostSource::kTombolo, "tombolo"},
                                              {CostSource::kRoofline, "roofline"}});
}

// What a stage takes on the devices and networks of a datacenter.
struct StageCostIn {
  std::string datacenter;
  StageCost cost;

  bool operator==(const StageCostIn&) const = default;
};

// What the device of each shard needs and takes; all shards of a stage in one datacenter are alike.
struct Stage {
  model::Slice slice;
  StageCost cost;                      // where the first pipeline has it
  std::vector<StageCostIn> elsewhere;  // where its replicas work on different devices
  Bytes state;        // weights, gradients and optimizer; what ZeRO 3 gathers of a pipeline's stage
  Bytes activations;  // kept per microbatch in flight
  Bytes workspace;    // needed for a while; of the stages of a rank, one at a time
  Bytes gradients;    // what replicas of this stage sum once per iteration

  bool operator==(const Stage&) const = default;
};

struct Plan : Decisions {
  model::Model model;  // has_model()
  CostSource cost_source = CostSource::kRoofline;
  std::string constants;        // digest of the constants that the law `tombolo` took; empty: none
  std::vector<Stage> stages;    // stages[s] is pipeline stage s; pipeline x virtual_stages
  std::vector<PairCost> pairs;  // of passes that are co-executed, by (forward, backward)
  std::vector<layout::Placement> ranks;  // ranks[r].rank == r
  Bytes boundary;                        // one microbatch between two stages
  std::optional<Seconds>
      wan_transfer;  // [stage_times].transfer: occupancy of a WAN link by one node pair
  std::optional<Seconds> wan_latency = 0_s;  // [stage_times].latency, on top; none: of the link
  std::optional<int64_t> in_flight;  // [stage_times].in_flight: microbatches a rank has memory for
  std::optional<GivenSchedule> given;        // instead of building parallelism.schedule by its name
  std::vector<MeasuredLink> measured_links;  // from the hardware file; for prediction only

  // Microbatches of the pipelines before it: the batch is divided in their order.
  int64_t microbatches_before(int32_t replica) const {
    int64_t sum = 0;
    for (int32_t r = 0; r < replica; ++r) sum += microbatches_of(r);
    return sum;
  }
  // Latency over this link of a transfer of wan_transfer, from when its last byte has left.
  Seconds latency_over(const cluster::WanLink& link) const {
    return wan_latency.value_or(link.one_way_latency);
  }
  // [stage_times] may stand without a model: then `model` is empty, no layers have sizes, and what
  // stages send each other has no bytes.
  bool has_model() const { return model.layers > 0; }
  // The schedule that was found for this Plan, or else the one it names.
  std::string schedule_name() const {
    return given ? given->name : std::string(to_name(parallelism.schedule));
  }
  // What stage s takes on the devices of this rank, which holds it.
  const StageCost& cost_on(int32_t rank, int32_t stage) const;
  // Whether any stage takes another time in one pipeline than in another.
  bool on_unlike_devices() const;
  // Where stage s lies in its pipeline; a rank holds several stages where there are virtual ones.
  int32_t position_of(int32_t stage) const { return parallelism.position_of(stage); }
  int32_t rank_of(int32_t stage, int32_t replica) const {
    CHECK(stage >= 0 && stage < std::ssize(stages) && replica >= 0 && replica < replicas(),
          "there is no stage {} of pipeline {}", stage, replica);
    return position_of(stage) * replicas() + replica;
  }
  std::vector<int32_t> replicas_of(int32_t stage) const;  // their ranks, ascending
  // Whether the run may change how many microbatches each pipeline computes (adaptive_batch.h).
  bool batch_changes() const { return parallelism.adaptive_batch && replicas() > 1; }
  // How many replicas of a stage share out what ZeRO shards: all; where they are in different
  // datacenters, those of each datacenter separately. 0 where datacenters have different numbers of
  // them.
  int64_t replicas_that_shard(int32_t stage) const;
  // Whether this stage has replicas in several datacenters, or any stage.
  bool replicas_lie_apart(int32_t stage) const;
  bool replicas_lie_apart() const;
  // If so, they sum their gradients by messages, group by group (schedule/gradient_exchange.h),
  // unless [stage_times] says how long a sum takes, or there is no model to say what is summed.
  bool exchanges_gradients(int32_t stage) const;
  bool exchanges_gradients() const;
  // The rank that holds the other copy of a tied embedding, with which this one sums gradients once an
  // iteration: the one with the last stage for the one with the first, and vice versa. Nothing for other
  // ranks, and where both stages are on one rank, nothing is tied, or no link joins their datacenters
  // (training refuses that).
  std::optional<int32_t> other_end(int32_t rank) const;
  bool exchange_overlaps() const {
    return exchanges_gradients() && exchange.value_or(Exchange{}).overlap;
  }
  // Whether groups of gradients are updated one by one, as they are summed. Not with a norm to clip by,
  // which is known only when all gradients are, nor where two stages have copies of a tied embedding,
  // which sum theirs when both are there.
  bool updates_by_group() const {
    const bool ties = model.tied_embeddings && stages.size() > 1;
    return exchange_overlaps() && !optimizer.clip_norm && !ties;
  }
  // Whether recomputation is worth anything: the last of several stages runs B right after F, while
  // its activations are still there.
  bool may_recompute(size_t stage) const {
    CHECK(stage < stages.size(), "stage {} of {}", stage, stages.size());
    return stages.size() == 1 || stage + 1 < stages.size();
  }
  const cluster::Datacenter& datacenter_of(int32_t rank) const;
  size_t datacenter_index(int32_t rank) const {  // in cluster.datacenters
    return static_cast<size_t>(&datacenter_of(rank) - cluster.datacenters.data());
  }
  layout::Place place_of(int32_t rank, int64_t shard) const;
  int64_t devices() const;  // of all shards of all ranks
  const cluster::Device& device_of(int32_t rank) const { return datacenter_of(rank).device; }
  bool operator==(const Plan&) const = default;
};

// Unusable where the parts do not fit together: ranks, stages and layers must cover each other, a
// device holds one shard, and ranks that send to one another from different datacenters need a link:
// neighbours of a pipeline, and replicas of a stage. Cost: O(shards log shards + stages x replicas x datacenters).
Status validate(const Plan& plan);

// Whether a stage on `shards` devices takes as long in both: of a scale-up domain only the part that
// the stage fills counts.
bool are_alike(const cluster::Datacenter& a, const cluster::Datacenter& b, int64_t shards);

// Of each stage the datacenters, by their number in the cluster, whose replicas take another time than
// the first one's, in the order of the cluster.
std::vector<size_t> unlike_datacenters(const Plan& plan, int32_t stage);

// The kind of each pipeline: pipelines are alike that lie in the same datacenters, position by
// position, and have equally many microbatches. Kinds count from 0 in the order in which they first
// appear.
std::vector<size_t> kinds_of_pipelines(const Plan& plan);

// How bytes get from one rank to another.
struct Channel {
  bool wan = false;
  Seconds latency;      // one way
  BytesPerSecond rate;  // of one message alone, all shards side by side
  std::optional<Seconds>
      occupancy;     // given instead of size / rate ([stage_times]) of `unit` bytes,
  Bytes unit;        // a boundary; of other messages in proportion. 0: of any
  std::string link;  // "oregon -> paris", "oregon" (inside)

  // How long `size` occupies the channel; it has arrived `latency` later.
  Seconds serialisation(Bytes size) const {
    if (!occupancy) return size / rate;
    return unit.value > 0 && size != unit ? *occupancy * (size / unit) : *occupancy;
  }
};

// The nodes between which the shards of two ranks send, side by side: of a message each pair
// carries count / (sum of all counts).
struct NodePair {
  int64_t from = 0;
  int64_t to = 0;
  int64_t count = 0;
};
std::vector<NodePair> node_pairs(const Plan& plan, int32_t from, int32_t to);

// Whether these ranks of one datacenter send over the scale-up fabric of their nodes alone.
bool same_nodes(const Plan& plan, int32_t from, int32_t to);

// As the cluster file describes it: what the runtime emulates. CHECKs that the ranks differ and
// that a WAN link exists where one is needed (make_plan saw to that).
Channel channel_between(const Plan& plan, int32_t from, int32_t to);

// As measured, where the Plan carries a measurement: what the simulator expects.
Channel expected_channel(const Plan& plan, int32_t from, int32_t to);

// The pipelines that share in time what this rank sends to that one of its pipeline, itself among
// them, ascending: those of its DP-cell that cross there from the same datacenter to the same other.
// Empty where it crosses no WAN, or is alone between its datacenters and so shares nothing. A cell
// of one pipeline shares with itself where all pipelines cross. Cost: O(pipelines of a cell).
std::vector<int32_t> sharers(const Plan& plan, int32_t from, int32_t to);

// A transfer of pipelines that share the WAN in time (sharers): it is cut in equal parts, one for
// each of them, which they carry side by side (those on one pair of nodes share what the
// pair may have). Scattering the parts inside the sender's datacenter and gathering them in the
// receiver's add latency (they leave the WAN free for others); what the path allows all node pairs
// together, and the sender's and the receiver's cards, limit the rate. For WAN channels only. The
// rate is that of a transfer that meets no other: resources.h says what it shares with whom.
Channel shared_channel(const Plan& plan, int32_t from, int32_t to);

}  // namespace tombolo::plan
