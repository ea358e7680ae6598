// What a rank does, compiled from its Chakra graph: nodes in the order of their ids, edges as
// numbers. Ranks with equal graphs share one Program.
//
// Nodes that ASTRA-sim would give up on are refused here, by rank, node and reason: a collective
// that it cannot do, communication on the host, a communicator group that is not declared.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "predict/astra/astra_system.h"
#include "predict/network/topology.h"
#include "spec/chakra/comm_groups.h"
#include "spec/graph/graph.h"

namespace tombolo::astra {

// Which tensors the nodes of a Program read and write.
struct Tensors {
  struct Use {
    uint32_t tensor = 0;
    bool writes = false;
  };
  std::vector<std::string> names;
  std::vector<int64_t> bytes;                          // more than 0
  std::vector<std::vector<Use>> uses;                  // per node, reads first
  std::vector<std::pair<int64_t, std::string>> nodes;  // their ids and names
};

struct Program {
  struct Node {
    int64_t id = 0;
    graph::NodeType type = graph::NodeType::kCompute;
    graph::CollectiveType collective = graph::CollectiveType::kAllReduce;
    bool on_host = false;
    uint32_t priority = 0;
    int32_t peer = -1;
    int32_t group = -1;  // index into RankPrograms::groups; -1: all ranks
    uint32_t dependencies = 0;
    uint32_t first_child = 0;  // in `children`
    uint32_t children = 0;
    int64_t replay_ns = 1;  // how long the trace says that it lasts
    int64_t bytes = 0;
    int64_t tag = 0;
    int64_t operations = 0;
    int64_t tensor_bytes = 0;
    std::vector<uint8_t> involved_dims;
    const std::vector<Program>* custom = nullptr;  // per position in the group
  };
  std::vector<Node> nodes;
  std::vector<uint32_t> children;
  std::vector<std::string> names;          // of nodes, where they were asked for
  std::shared_ptr<const Tensors> tensors;  // where memory is tracked
};

inline bool accesses_memory(const Program::Node& node) {  // a remote one
  return node.type == graph::NodeType::kMemoryLoad || node.type == graph::NodeType::kMemoryStore;
}

class Group {
 public:
  Group(int64_t id_, std::vector<int32_t> ranks_);

  int64_t id = 0;
  std::vector<int32_t> ranks;            // in the order of the file, which is the order of its ring
  int32_t position(int32_t rank) const;  // in `ranks`; -1: not a member
  int32_t lowest() const { return sorted_[0].first; }
  bool operator==(const Group& other) const { return id == other.id && ranks == other.ranks; }

 private:
  std::vector<std::pair<int32_t, int32_t>> sorted_;  // rank, position
};

struct RankPrograms {
  std::vector<const Program*> programs;  // per rank; null where another stands for it
  std::vector<Group> groups;
  std::vector<std::unique_ptr<Program>> owned;
  // Collectives that are spelled out, by the prefix of their files.
  std::map<std::string, std::unique_ptr<std::vector<Program>>> customs;
  bool of_traces = false;    // whose nodes list tensors, be it none
  bool one_for_all = false;  // every rank runs the same Program and nothing in it names a rank
};

struct WorkloadFiles {
  std::string prefix;       // PREFIX.RANK.et
  std::string comm_groups;  // file; empty: none
  bool spmd = false;        // PREFIX.0.et stands for all ranks
  bool names = false;       // keep those of nodes; ranks that share a Program have the first one's
};

Result<RankPrograms> read_workload(const WorkloadFiles& files, const network::Topology& topology,
                                   const SystemSettings& settings);

// The same of some ranks, whose graphs are asked for one by one; the others have no Program. Nodes
// name the groups by their ids.
using GraphOfRank = std::function<Result<graph::Graph>(int32_t rank)>;
Result<RankPrograms> make_workload(const std::vector<int32_t>& ranks, const GraphOfRank& graph_of,
                                   std::vector<Group> groups, const network::Topology& topology,
                                   const SystemSettings& settings, bool names = false);

// The same from graphs in memory, graphs[i] for rank i; one graph stands for all ranks.
Result<RankPrograms> make_workload(const graph::Graphs& graphs, const chakra::CommGroups& groups,
                                   const network::Topology& topology,
                                   const SystemSettings& settings, bool names = false);

}  // namespace tombolo::astra
