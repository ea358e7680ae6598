// Outline: a graph of one rank reduced to what its soundness and critical path depend on.
//
// Nodes have an id and a duration, edges lead to what must be finished before. It takes 20 bytes a
// node and 8 an edge (another 4 each while it is examined), so that the graph of a file which
// itself would not fit into memory can be judged.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "spec/graph/graph.h"

namespace tombolo::chakra {

class Outline {
 public:
  void add(const graph::Node& node) { add(node.id, node.duration, node.data_deps, node.ctrl_deps); }
  // Lists without duplicates. At most 2^32 - 2 nodes and 2^32 - 1 edges fit; beyond that add() does
  // nothing and examine() says so.
  void add(int64_t id, SimDuration duration, std::span<const int64_t> data_deps,
           std::span<const int64_t> ctrl_deps);

  size_t nodes() const { return ids_.size(); }
  size_t edges() const { return deps_.size(); }

  enum class Fault { kMissing, kItself, kCycle };
  struct BadEdge {
    int64_t node;
    int64_t dependency;
    Fault fault;
    bool operator==(const BadEdge&) const = default;
  };
  struct Verdict {
    // By node and dependency, ascending. Of a cycle the edge that closes it, in a depth-first
    // search that begins at the lowest ids and follows the lowest dependencies first: without these
    // edges the graph is sound. Both edges of a pair, data and control, are one.
    std::vector<BadEdge> bad;
    std::vector<int64_t> cycle;  // the first that was found: each waits for the next, the last for
                                 // the first
    SimDuration critical_path;   // longest sum of durations along the sound edges
    std::vector<int64_t> critical_nodes;  // in order of time
  };
  // Unusable: an id that two nodes have, durations whose sum is beyond 63 bits. Cost: O(nodes log
  // nodes + edges log nodes) where ids are neither in order nor dense, else O(nodes + edges).
  Result<Verdict> examine() const;

 private:
  class Places;
  class Examination;

  std::vector<int64_t> ids_;
  std::vector<int64_t> durations_;
  std::vector<uint32_t> ends_;  // of each node's part of deps_
  std::vector<int64_t> deps_;
  bool overflow_ = false;
};

// A line that says what is wrong: "node 5 depends on node 7, which does not exist".
std::string to_text(const Outline::BadEdge& edge);

}  // namespace tombolo::chakra
