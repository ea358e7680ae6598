// A training iteration as graphs, from nothing but a job: what every rank computes, sends and
// reduces, for any tensor, context, expert, pipeline and data parallelism with any ZeRO stage.
// No traces of a real cluster are needed.
//
// A rank works through the actions of its place in the named schedule. A forward or backward pass
// is its layers' computations (workload_parts.h) with their collectives in between, all in a row;
// messages of the pipeline overlap it. Gradient reductions start when a layer's last backward pass
// is done and the rank's last message has begun; parameters of ZeRO 3 are gathered while the layer
// before computes. Both run one after the other per group, as on a stream of their own. The
// optimizer waits for all of it.
//
// Collectives name their communicator group, numbered across all kinds of groups; that of all ranks
// has no name. Tags number the collectives of a group, whose members all make them in one order.
// comm_size follows ASTRA-sim: an all-gather's is what one rank contributes, that of all others the
// whole buffer of a rank. Bytes are those that traffic.h counts, rounded to whole ones per node.
//
// Over several datacenters each stage is priced where a Plan has it (plan::lay_out).
//
// Bounds: one tensor degree; experts are loaded evenly; keys and values are gathered whole before
// attention; context parallelism splits sequences evenly. Graphs are made rank by rank: memory
// holds one, and 4 bytes per rank and kind of group. Cost: O(nodes) each.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/result.h"
#include "predict/workload/traffic.h"
#include "predict/workload/workload_parts.h"
#include "spec/chakra/comm_groups.h"
#include "spec/graph/graph.h"
#include "spec/layout/rank_numbering.h"
#include "spec/plan/job.h"
#include "spec/schedule/schedule.h"

namespace tombolo::workload {

struct WorkloadOptions {
  Granularity granularity = Granularity::kLayer;
  // ZeRO-Infinity: the shards of ZeRO 3 live in remote memory. A rank loads its shard of parameters
  // before they are gathered, and stores its shard of gradients when they are summed; what the
  // optimizer keeps stays where the update is. Rajbhandari et al., 2021.
  bool remote_parameters = false;
};

class Workload {
 public:
  // Unusable: remote parameters without ZeRO 3; what estimate, rank_numbering.h, traffic_volume.h
  // and the named schedule refuse. Over several datacenters infeasible where stages find no room.
  static Result<Workload> make(const plan::Job& job, const WorkloadOptions& options);

  int32_t ranks() const { return static_cast<int32_t>(numbering_.ranks()); }
  // Of one rank. Files name groups; `members` lists their ranks in every node, too, as validate()
  // wants them.
  graph::Graph graph(int32_t rank, bool members = true) const;
  // By the names in the graphs. Groups that nothing is exchanged in are left out.
  chakra::CommGroups groups() const;
  int32_t microbatches() const { return shape_.microbatches; }
  int32_t stage_of(int32_t rank) const { return static_cast<int32_t>(numbering_.stage_of(rank)); }
  // A rank of each stage.
  const std::vector<int32_t>& stages() const { return stage_offsets_; }
  const std::vector<std::string>& notes() const { return notes_; }
  // Which kind of traffic a collective is.
  static TrafficKind kind_of(const graph::Node& collective);

  // Communicator groups by kind, in the order of their numbers. Tied: the two stages that hold a
  // copy of the embedding.
  enum Kind : uint8_t { kTensor, kContext, kExpert, kGradients, kExpertGradients, kTied, kKinds };
  struct Groups {
    layout::RankGroups lists;
    std::vector<int32_t> of_rank;  // its group; -1: none
    int64_t first_name = 0;
    size_t size() const { return lists.offsets.size(); }
  };
  const Groups& groups_of(size_t kind) const {
    CHECK(kind < kKinds, "groups of kind {} of {}", kind, static_cast<size_t>(kKinds));
    return groups_[kind];
  }
  // The Kind of the group of a collective that is not of all ranks.
  static size_t kind_index(const graph::Node& collective) {
    CHECK(collective.type == graph::NodeType::kCollective && collective.comm_tag >= 0,
          "node {} (\"{}\") is no collective of a workload", collective.id, collective.name);
    return static_cast<size_t>(collective.comm_tag % kKinds);
  }

 private:
  friend class WorkloadWriter;

  struct Chunk {
    std::vector<Part> parts;
    double update = 0;  // seconds
  };

  explicit Workload(layout::RankNumbering numbering) : numbering_(numbering) {}
  void find_groups();

  layout::RankNumbering numbering_;
  std::array<Groups, kKinds> groups_;
  std::vector<int32_t> stage_offsets_;
  std::vector<Chunk> chunks_;      // in the order of the model
  schedule::PipelineShape shape_;  // of one pipeline
  schedule::Schedule schedule_;    // by position
  layout::Parallelism parallelism_;
  double weight_bytes_ = 2, gradient_bytes_ = 4;
  bool remote_parameters_ = false;
  double overhead_ = 0;        // seconds of the host, per iteration
  double boundary_ = 0;        // bytes per microbatch
  double whole_boundary_ = 0;  // of all tensor ranks
  double tied_ = 0;            // bytes; 0: nothing is tied across stages
  std::vector<std::string> notes_;
};

}  // namespace tombolo::workload
