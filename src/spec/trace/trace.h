// Trace: what happened. Intervals on devices and links, and scalar records, predicted or measured.
//
// The simulator and the runtime write the same Trace for one Plan, so any two can be laid side by
// side: of every iteration they have the same intervals, one for each (iteration, rank, peer, lane,
// action, part) and with the same bytes, whether one takes time or not. So an interval is a node of
// the Graph of the Plan's schedule; receives have none, their send's says when the message was there.
//
// Only some of a Trace cannot be predicted:
//   - what lies outside of iterations (iteration 0): evaluation, checkpoints, layers of prompts;
//   - bytes of sparse updates that depend on the gradients (schedule::expected_update_bytes), and
//     bytes where byte_scale divides them.
//
// Times are nanoseconds since the origin of the run, which all ranks share. File: JSON lines, a
// header first and a count at the end, so that a truncated file is recognised (trace_file.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/time.h"
#include "base/value.h"
#include "spec/action/action.h"
#include "spec/trace/exposed.h"

namespace tombolo::trace {

// Three words that are never mixed up, and stand on every figure.
enum class Provenance {
  kPredicted,  // by the simulator
  kEmulated,   // real bytes, sockets and schedule; kernels replaced by their predicted duration
  kMeasured,   // everything real
};
constexpr auto enum_names(Provenance) {
  return std::to_array<EnumName<Provenance>>({{Provenance::kPredicted, "predicted"},
                                              {Provenance::kEmulated, "emulated"},
                                              {Provenance::kMeasured, "measured"}});
}

// Where an interval is drawn: a rank's compute engine, the directed link from a rank to a peer, or
// a rank's part in a collective operation (from its arrival, so waiting for the others counts).
// Nodes of a graph (NODE) have more: a collective or a send takes the rank's communicator, which is
// its lane "collective"; a receive waits in a lane of its own; chunks of collectives, and messages,
// are in the dimension of the network that they pass.
enum class Lane { kCompute, kLink, kCollective, kHost, kRemoteMemory, kReceive, kDimension };
constexpr auto enum_names(Lane) {
  return std::to_array<EnumName<Lane>>({{Lane::kCompute, "compute"},
                                        {Lane::kLink, "link"},
                                        {Lane::kCollective, "collective"},
                                        {Lane::kHost, "host"},
                                        {Lane::kRemoteMemory, "remote_memory"},
                                        {Lane::kReceive, "receive"},
                                        {Lane::kDimension, "dimension"}});
}

// What an interval is part of. Empty for an action that a schedule orders. What a pass communicates
// inside (TP, CP, EP, DP) names the pass, after whose computation it is drawn; an interval of a
// graph without a Plan (NODE) names the node, or the chunk or message of it.
struct PassPart {
  action::Action pass;
  auto operator<=>(const PassPart&) const = default;
};
struct GraphPart {
  std::string name;
  auto operator<=>(const GraphPart&) const = default;
};
using Origin = std::variant<std::monostate, PassPart, GraphPart>;

// "0F1", the name of a node, or nothing: what files say.
std::string to_text(const Origin& origin);

struct Interval {
  Lane lane = Lane::kCompute;
  int32_t rank = 0;       // on a link: the sender
  int32_t peer = -1;      // on a link: the receiver
  action::Action action;  // on a link: the send
  int64_t iteration = 0;  // from 1; 0: outside of any iteration
  SimTime start;          // on a link: the first byte leaves
  SimTime end;            // on a link: the last byte is there
  int64_t bytes = 0;  // payload on links and of collectives, 0 on devices; of messages of a Plan
                      // without a model 0, whatever is sent to stand for them
  Origin origin = {};
  // Which one of an action's several intervals: the group of gradients (plan/gradient_groups.h) that a
  // pass stops for, or that is summed, sent or updated.
  int32_t part = 0;

  bool operator==(const Interval&) const = default;
};

// A number at a moment: "loss", "evaluation_loss", "tokens_per_s", "learning_rate", ...
struct Record {
  std::string name;
  int64_t iteration = 0;
  int32_t rank = 0;
  SimTime at;
  double value = 0;
  std::string reason = {};  // why a value was chosen; empty: not given

  bool operator==(const Record&) const = default;
};

// One rank, as the report labels it.
struct RankLabel {
  int32_t rank = 0;
  int32_t stage = 0;
  std::string datacenter;
  std::string device;
  int32_t replica = 0;     // which pipeline
  int64_t stands_for = 1;  // ranks, itself included, that do the same at the same times

  bool operator==(const RankLabel&) const = default;
};

// What explains a run of graphs, which has no Plan: its inputs, and its totals over all ranks, as
// the intervals may be those of a few.
struct GraphRun {
  std::vector<InputFact> inputs;
  std::vector<ExposedRow> exposed;       // of the ranks in the Trace, and over all
  std::vector<DimensionUse> dimensions;  // of the network, over all NPUs
  std::vector<std::string> left_out;     // sentences

  bool operator==(const GraphRun&) const = default;
};

struct Header {
  Provenance provenance = Provenance::kPredicted;
  std::string name;         // of the job
  std::string command;      // that made it
  std::string version;      // of Tombolo
  std::string plan_digest;  // equal digests: the same Plan
  std::string fingerprint;  // of the order of events; empty unless predicted
  uint64_t seed = 0;
  double byte_scale = 1;  // what emulated payloads were divided by
  // Gradients are exchanged while ranks begin the next iteration (Plan::exchange_overlaps): an
  // iteration then counts as a period.
  bool overlaps = false;
  // The period, in iterations, of a repeating pattern of lengths (local steps: Exchange::steps). The
  // length of an iteration is then a mean over whole cycles.
  int64_t cycle = 1;
  std::vector<RankLabel> ranks;
  Value plan;                     // the whole Plan, so that a trace explains itself
  std::optional<GraphRun> graph;  // instead of it

  bool operator==(const Header&) const = default;
};

// Whether there is more than one pipeline: then labels name it.
bool has_replicas(const Header& header);

struct Trace {
  Header header;
  std::vector<Interval> intervals;  // ordered: normalize()
  std::vector<Record> records;

  bool operator==(const Trace&) const = default;
};

// Sorts intervals by (start, lane, rank, peer, end, action, origin, part) and records by (iteration,
// name, rank).
void normalize(Trace& trace);

// First start to last end over all ranks of an iteration, for every iteration that has intervals,
// in order. Waiting for the first input counts; evaluation and checkpoints (iteration 0) do not.
// Where iterations overlap (Header::overlaps), each ends where the next one begins, so that its length
// is a period; but the last one, which has no next, ends with all that belongs to it.
struct IterationTime {
  int64_t iteration = 0;
  SimTime start;
  SimTime end;
  // False, where iterations overlap, for the first one, which waits for no gradients, and the last.
  bool steady = true;
  int64_t cycle = 1;  // Header::cycle
};
std::vector<IterationTime> iteration_times(const Trace& trace);

// Those whose lengths count: the steady ones, or all but the last where none is, or the only one.
// Where they have a cycle, of these the late cycles (late_turns), or all without a whole one.
std::vector<IterationTime> counting(std::vector<IterationTime> times);

// How many iterations at the end make the whole cycles that count: all cycles from the third on, or else
// the last one. In the first cycle no step waits for what a delay puts off; in the second one the steps
// that wait for it had waited for nothing themselves. All iterations where no cycle is whole.
size_t late_turns(size_t iterations, int64_t cycle);

// The median of those that count, but of two that overlap half of what both take; 0 without iterations.
// Where they have a cycle, the mean.
SimDuration median_iteration(const std::vector<IterationTime>& times);

}  // namespace tombolo::trace
