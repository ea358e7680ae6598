// Graph: what should happen. One dependency graph per rank, in the words of Chakra execution
// traces.
//
// Nodes are computations, transfers between memories and communication; edges say what must be
// finished before a node may start. Data dependencies carry values, control dependencies only order
// (a rank computes in schedule order). Sends and receives of different ranks are matched by
// (source, destination, tag), the parts of a collective operation by (group, tag).
//
// Reference: Sridharan et al., "Chakra" (2023), node types and numbers as in its et_def.proto.
// Files: Chakra's own (chakra.h); JSON with all ranks in one (below).
// Cost: a Node takes 200 bytes, and its dependencies, name and details what they hold.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/fields.h"
#include "base/result.h"
#include "base/time.h"
#include "spec/action/action.h"

namespace tombolo::graph {

enum class NodeType : uint8_t {
  kInvalid = 0,      // takes no time; what depends on it waits for its dependencies
  kMetadata = 1,     // says something about the run, such as its process groups; takes no time
  kMemoryLoad = 2,   // tensor_size bytes from remote memory
  kMemoryStore = 3,  // and to it
  kCompute = 4,
  kSend = 5,
  kReceive = 6,
  kCollective = 7
};
constexpr auto enum_names(NodeType) {
  return std::to_array<EnumName<NodeType>>({{NodeType::kInvalid, "INVALID_NODE"},
                                            {NodeType::kMetadata, "METADATA_NODE"},
                                            {NodeType::kMemoryLoad, "MEM_LOAD_NODE"},
                                            {NodeType::kMemoryStore, "MEM_STORE_NODE"},
                                            {NodeType::kCompute, "COMP_NODE"},
                                            {NodeType::kSend, "COMM_SEND_NODE"},
                                            {NodeType::kReceive, "COMM_RECV_NODE"},
                                            {NodeType::kCollective, "COMM_COLL_NODE"}});
}

enum class CollectiveType : uint8_t {
  kAllReduce = 0,
  kReduce = 1,
  kAllGather = 2,
  kGather = 3,
  kScatter = 4,
  kBroadcast = 5,
  kAllToAll = 6,
  kReduceScatter = 7,
  kReduceScatterBlock = 8,
  kBarrier = 9
};
constexpr auto enum_names(CollectiveType) {
  return std::to_array<EnumName<CollectiveType>>(
      {{CollectiveType::kAllReduce, "ALL_REDUCE"},
       {CollectiveType::kReduce, "REDUCE"},
       {CollectiveType::kAllGather, "ALL_GATHER"},
       {CollectiveType::kGather, "GATHER"},
       {CollectiveType::kScatter, "SCATTER"},
       {CollectiveType::kBroadcast, "BROADCAST"},
       {CollectiveType::kAllToAll, "ALL_TO_ALL"},
       {CollectiveType::kReduceScatter, "REDUCE_SCATTER"},
       {CollectiveType::kReduceScatterBlock, "REDUCE_SCATTER_BLOCK"},
       {CollectiveType::kBarrier, "BARRIER"}});
}

// Rarely used fields: most nodes have none, so that a million nodes stay affordable.
struct NodeDetails {
  std::string pg_name;                 // communicator group id; empty: all ranks
  std::vector<uint8_t> involved_dims;  // 1 for each dimension of the network it uses; empty: all
  // As the file words them. Of METADATA nodes (process groups stand there); of other nodes if asked
  // for.
  std::vector<std::string> inputs, outputs;
  // Of a graph that is one iteration of many: ids on the same rank whose nodes must be finished in
  // the iteration before. A rank that says it anywhere begins an iteration as these say.
  std::vector<int64_t> carried_deps;
  // Of a COMP_NODE: the node of this rank with which it is co-executed, from that one's start. That
  // node is one of its ctrl_deps, and its duration is what is left of it when that node has ended.
  std::optional<int64_t> co_executed_with;

  bool operator==(const NodeDetails&) const = default;
};

// A NodeDetails that takes 8 bytes while there is nothing to say. A value: copies are deep.
class OptionalDetails {
 public:
  OptionalDetails() = default;
  OptionalDetails(NodeDetails details)
      : details_(details == NodeDetails{} ? nullptr
                                          : std::make_unique<NodeDetails>(std::move(details))) {}
  OptionalDetails(const OptionalDetails& other) : OptionalDetails(*other) {}
  OptionalDetails(OptionalDetails&&) noexcept = default;
  OptionalDetails& operator=(OptionalDetails other) noexcept {
    details_ = std::move(other.details_);
    return *this;
  }

  const NodeDetails& operator*() const;
  const NodeDetails* operator->() const { return &**this; }
  NodeDetails& edit();  // makes room where there was nothing
  bool operator==(const OptionalDetails& other) const { return **this == *other; }

 private:
  std::unique_ptr<NodeDetails> details_;
};

struct Node {
  int64_t id = 0;                             // unique within the rank, ascending
  std::string name;                           // for people; of a schedule's node its action ("0F1")
  std::optional<action::Action> action = {};  // of a schedule's node; files have the name alone
  NodeType type = NodeType::kCompute;
  CollectiveType collective = CollectiveType::kAllReduce;  // COMM_COLL_NODE
  bool is_cpu_op = false;  // runs on the host: takes no accelerator, and communicates nothing
  // Of an action that a schedule cuts into several nodes: the group of gradients that this one is
  // about (exchange_graph.h). Files do not have it.
  int32_t part = 0;
  int32_t iteration = 0;   // of a Graph of several (sim::repeat): from 1. Nor this.
  SimDuration duration;    // COMP_NODE; of a COMM_COLL_NODE from when its last rank is there
  SimDuration delay;       // from its dependencies' end until it may start; occupies nothing
  int64_t comm_size = 0;   // bytes; of a collective what each rank contributes; of an INVALID_NODE
                           // that gathers the messages of a sum, what is summed
  int32_t comm_peer = -1;  // rank at the other end: comm_dst of a send, comm_src of a receive
  uint32_t comm_priority = 0;  // of a send: it overtakes those of a higher number that wait
  int64_t comm_tag = 0;
  std::vector<int32_t> comm_group;  // COMM_COLL_NODE: the ranks, ascending, where they are known;
                                    // what files name by details->pg_name is resolved by others
  std::vector<int64_t> data_deps;   // ids on the same rank, sorted
  std::vector<int64_t> ctrl_deps;
  int64_t num_ops = 0;      // floating-point operations of a COMP_NODE; 0: duration counts
  int64_t tensor_size = 0;  // bytes that a COMP_NODE or MEM_*_NODE touches
  OptionalDetails details;

  bool operator==(const Node&) const = default;
};

struct Graph {
  int32_t rank = 0;
  std::vector<Node> nodes;

  bool operator==(const Graph&) const = default;
};

// All ranks of a run; graphs[i].rank == i.
using Graphs = std::vector<Graph>;

// What must hold for the Graphs of a Plan: every part of a message and of a collective is there.
//
// Unusable, naming rank, node and reason: ids that are not ascending, a missing or own dependency,
// a cycle (within a rank or through messages), a send without its receive or with another size, a
// collective without one of its ranks or different on two of them, a negative duration or delay.
// Cost: O(nodes + edges).
Status validate(const Graphs& graphs);

// Graphs as one JSON file: {"tombolo_graph": 1, "graphs": [{"rank": 0, "nodes": [...]}, ...]}.
inline constexpr int kGraphVersion = 1;

std::string to_json_text(const Graphs& graphs);  // ranks and ids in order
Result<Graphs> parse_graphs(std::string_view text, const std::string& name);  // validated

}  // namespace tombolo::graph
