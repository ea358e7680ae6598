// Interprets Graphs in virtual time: the main loop of the simulator.
//
// A node may start when what it depends on has finished and its delay is over. A rank computes one
// node at a time (the lowest id among those that may start). Sends proceed asynchronously, one at a
// time per channel (channels.h), in the order in which they became ready, those with a lower
// comm_priority first, or in the order of a shared channel. A receive has finished when it may start
// and its message has arrived. A collective lasts as long as its node says from when the last of its
// ranks is ready, and ends for all at once.
//
// Rounding: durations and latencies are whole nanoseconds already; the last byte of a flow leaves
// at the next whole nanosecond (engine/fluid.h). Cost: O(events * log ranks), plus one solve of the
// fair shares for each WAN message that meets another, and for each step of a rate that changes.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/time.h"
#include "predict/sim/channels.h"
#include "spec/graph/graph.h"

namespace tombolo::sim {

// When a node ran. A send: from its first byte leaving to its last byte being there. A collective:
// from its rank's readiness.
struct Span {
  SimTime start;
  SimTime end;
  bool operator==(const Span&) const = default;
};

struct Execution {
  std::vector<std::vector<Span>> spans;  // spans[rank][i] is of graphs[rank].nodes[i]
  uint64_t events = 0;
  std::string fingerprint;  // of the order of events
};

// CHECKs that the graphs are sound (graph::validate), that every send has a channel (a shared one,
// or that of its pair of ranks), and that all nodes finish.
Execution interpret(const graph::Graphs& graphs, const Channels& channels);

// The same of graphs that are known to be sound, such as what `repeat` makes of sound ones: it does not
// validate them first.
Execution interpret_sound(const graph::Graphs& graphs, const Channels& channels);

// Called for every node as it finishes, in the order of events. It may change the comm_size of sends that
// have not begun; they then carry that size.
class Watcher {
 public:
  virtual ~Watcher() = default;
  virtual void finished(const graph::Graph& graph, size_t node, const Span& span) = 0;
};
Execution interpret_sound(const graph::Graphs& graphs, const Channels& channels, Watcher& watcher);

// The same graph `times` times in a row: a rank starts the next iteration when the computations that no
// other one on it waits for (its update) are done, or as its carried_deps say. Node ids, tags and
// priorities continue upwards, names repeat. A node for which leaves_out(node, iteration) is true takes
// no time and no bytes in that iteration (iterations count from 1). Sound graphs stay sound if all parts
// of a message or of a collective are left out of the same iterations.
using LeavesOut = std::function<bool(const graph::Node& node, int64_t iteration)>;
graph::Graphs repeat(graph::Graphs graphs, int64_t times, const LeavesOut& leaves_out = {});
// Iterations of different graphs one after the other, of the same ranks and the same updates: each part
// `times` times.
struct Repeated {
  graph::Graphs graphs;
  int64_t times = 1;
};
graph::Graphs repeat(std::vector<Repeated> parts, const LeavesOut& leaves_out = {});

}  // namespace tombolo::sim
