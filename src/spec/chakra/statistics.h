// What a graph of one rank holds, in numbers, and its drawing.
//
// Nodes are added one by one and forgotten, but for an Outline of 28 bytes a node and 8 an edge:
// the numbers of a file that would not fit into memory can be asked for. Edges that cannot be do
// not refuse the file; they are counted, and left out of the critical path.
#pragma once

#include <array>
#include <string>

#include "base/value.h"
#include "spec/chakra/outline.h"
#include "spec/graph/graph.h"

namespace tombolo::chakra {

struct Statistics {
  struct Traffic {
    int64_t nodes = 0;
    int64_t bytes = 0;
  };
  int64_t nodes = 0;
  std::array<int64_t, 8> by_type = {};  // by NodeType
  int64_t cpu_ops = 0;                  // of these, on the host

  // CPU operations communicate nothing and are not counted from here on; sums stop at 2^63 - 1.
  std::array<Traffic, 10> collectives = {};  // by CollectiveType
  Traffic sends, receives, loads, stores;
  int64_t num_ops = 0;
  SimDuration compute_time;        // durations of COMP_NODEs
  SimDuration communication_time;  // and of COMM_*_NODEs, where the file gives them
  SimDuration cpu_time;            // of all CPU operations

  int64_t edges = 0;
  int64_t missing = 0, itself = 0, cyclic = 0;  // edges that cannot be, by Outline::Fault
  SimDuration critical_path;                    // by durations alone: what the file does not time
                                                // takes no time
  std::vector<int64_t> critical_nodes;

  std::string full() const;  // a page for people
  Value to_value() const;    // the same for programs
};

class StatisticsBuilder {
 public:
  void add(const graph::Node& node);
  // Unusable as Outline::examine(), with the file's name.
  Result<Statistics> finish(const std::string& name);

 private:
  Statistics sums_;
  Outline outline_;
};

// GraphViz: "digraph ... {", a few lines per node, "}". Data dependencies are drawn, control
// dependencies dashed.
std::string dot_begin(const std::string& name);
std::string dot_lines(const graph::Node& node);
std::string dot_end();

}  // namespace tombolo::chakra
