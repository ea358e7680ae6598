// Graph: what should happen. One dependency graph per rank, in the words of Chakra execution
// traces.
//
// Nodes are computations, sends and receives; edges say what must be finished before a node may
// start. Data dependencies carry values, control dependencies only order (a rank computes in
// schedule order). Sends and receives of different ranks are matched by (source, destination, tag),
// the parts of a collective operation by (group, tag).
//
// Reference: Sridharan et al., "Chakra" (2023), node types as in its et_def.proto. File: JSON with
// the same names (graph_file.h).
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "base/fields.h"
#include "base/result.h"
#include "base/time.h"

namespace tombolo::graph {

enum class NodeType { kCompute, kSend, kReceive, kCollective };
constexpr auto enum_names(NodeType) {
  return std::to_array<EnumName<NodeType>>({{NodeType::kCompute, "COMP_NODE"},
                                            {NodeType::kSend, "COMM_SEND_NODE"},
                                            {NodeType::kReceive, "COMM_RECV_NODE"},
                                            {NodeType::kCollective, "COMM_COLL_NODE"}});
}

struct Node {
  int64_t id = 0;    // unique within the rank, ascending
  std::string name;  // an action in text form where a schedule made it ("0F1")
  NodeType type = NodeType::kCompute;
  SimDuration duration;    // COMP_NODE; of a COMM_COLL_NODE from when its last rank is there
  int64_t comm_size = 0;   // bytes; of a collective what each rank contributes
  int32_t comm_peer = -1;  // rank at the other end
  int64_t comm_tag = 0;
  std::vector<int32_t> comm_group;  // COMM_COLL_NODE, an all-reduce: the ranks, ascending
  std::vector<int64_t> data_deps;   // ids on the same rank, sorted
  std::vector<int64_t> ctrl_deps;

  bool operator==(const Node&) const = default;
};

struct Graph {
  int32_t rank = 0;
  std::vector<Node> nodes;

  bool operator==(const Graph&) const = default;
};

// All ranks of a run; graphs[i].rank == i.
using Graphs = std::vector<Graph>;

// Unusable, naming rank, node and reason: ids that are not ascending, a missing or own dependency,
// a cycle (within a rank or through messages), a send without its receive or with another size, a
// collective without one of its ranks or unlike on two of them, a negative duration. Cost: O(nodes
// + edges).
Status validate(const Graphs& graphs);

}  // namespace tombolo::graph
