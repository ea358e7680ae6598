#include "predict/astra/astra_recorder.h"

#include <algorithm>

#include "base/check.h"

namespace tombolo::astra {
namespace {

using graph::NodeType;
using trace::Interval;
using trace::Lane;

uint64_t key(int32_t rank, uint32_t node) { return static_cast<uint64_t>(rank) << 32 | node; }

Lane lane_of(const Program::Node& node) {
  switch (node.type) {
    case NodeType::kCompute:
      return node.on_host ? Lane::kHost : Lane::kCompute;
    case NodeType::kMemoryLoad:
    case NodeType::kMemoryStore:
      return Lane::kRemoteMemory;
    case NodeType::kReceive:
      return Lane::kReceive;
    default:
      return Lane::kCollective;
  }
}

}  // namespace

void AstraRecorder::begins(const Cast& cast) {
  cast_ = cast;
  ranks_in_all_ = static_cast<int32_t>(cast.ranks());
  ranks_ = std::min(ranks_in_all_, options_.ranks_max);
  rank_of_.assign(static_cast<size_t>(cast.topology->npus()), -1);
  for (int32_t r = 0; r < ranks_; ++r) rank_of_[static_cast<size_t>(cast.npu_of(r))] = r;
  intervals_.clear();
  nodes_.clear();
  phases_.clear();
  left_out_ = 0;
}

void AstraRecorder::add(Interval interval) {
  if (intervals_.size() == options_.intervals_max) {
    ++left_out_;
    return;
  }
  interval.iteration = 1;
  interval.action.kind = action::ActionKind::kNode;
  intervals_.push_back(std::move(interval));
}

// "ALL_REDUCE gradients", "SEND activations -> 3"; the id of a node without a name.
std::string AstraRecorder::name_of(int32_t rank, uint32_t n) const {
  const Program& program = *cast_.workload->programs[static_cast<size_t>(cast_.npu_of(rank))];
  const Program::Node& node = program.nodes[n];
  std::string name = program.names.empty() ? "" : program.names[n];
  if (name.empty()) name = fmt::format("node {}", node.id);
  switch (node.type) {
    case NodeType::kCollective:
      return fmt::format("{} {}", to_name(node.collective), name);
    case NodeType::kSend:
      return fmt::format("SEND {} → {}", name, node.peer);
    case NodeType::kReceive:
      return fmt::format("RECV {} ← {}", name, node.peer);
    case NodeType::kMemoryLoad:
      return fmt::format("LOAD {}", name);
    case NodeType::kMemoryStore:
      return fmt::format("STORE {}", name);
    default:
      return name;
  }
}

void AstraRecorder::node_begins(int32_t rank, uint32_t node, SimTime at) {
  if (records(rank)) nodes_[key(rank, node)] = at;
}

void AstraRecorder::node_ends(int32_t rank, uint32_t n, SimTime at) {
  if (!records(rank)) return;
  const auto begun = nodes_.find(key(rank, n));
  CHECK(begun != nodes_.end(), "node {} of rank {} ends and has not begun", n, rank);
  const SimTime start = begun->second;
  nodes_.erase(begun);
  const int32_t npu = cast_.npu_of(rank);
  const Program::Node& node = cast_.workload->programs[static_cast<size_t>(npu)]->nodes[n];
  // What takes no time and has no resource says nothing about a run.
  if (node.type == NodeType::kMetadata || node.type == NodeType::kInvalid) return;
  Interval interval;
  interval.lane = lane_of(node);
  interval.rank = npu;
  interval.start = start;
  interval.end = at;
  const bool memory = interval.lane == Lane::kRemoteMemory;
  interval.bytes = std::max<int64_t>(memory ? node.tensor_bytes : node.bytes, 0);
  interval.origin = trace::GraphPart{name_of(rank, n)};
  add(std::move(interval));
}

void AstraRecorder::phase_begins(int32_t rank, uint32_t chunk, const Phase& phase, SimTime at) {
  if (!records(rank)) return;
  const network::PhaseSpec& spec = phase.shared->phase.spec();
  Interval interval;
  interval.lane = Lane::kDimension;
  interval.rank = cast_.npu_of(rank);
  interval.action.stage = static_cast<int32_t>(phase.shared->dimension);
  interval.action.microbatch = static_cast<int32_t>(phase.number & INT32_MAX);
  interval.start = at;
  interval.bytes = spec.bytes;
  interval.origin =
      trace::GraphPart{fmt::format("chunk {}: {} {}, of {}", phase.number, to_name(spec.kind),
                                   to_text(spec.choice), name_of(rank, phase.node))};
  phases_[chunk] = std::move(interval);
}

void AstraRecorder::phase_ends(int32_t rank, uint32_t chunk, SimTime at) {
  if (!records(rank)) return;
  const auto begun = phases_.find(chunk);
  CHECK(begun != phases_.end(), "a phase of chunk {} ends and has not begun", chunk);
  begun->second.end = at;
  add(std::move(begun->second));
  phases_.erase(begun);
}

// Those of phases are drawn as their chunk; of hops, those out of a switch are not a rank's.
void AstraRecorder::message_passes(const Message& message) {
  const int32_t rank = rank_of_[static_cast<size_t>(message.from)];
  if (rank < 0 || message.of_phase || message.links == 0) return;
  Interval interval;
  interval.lane = Lane::kDimension;
  interval.rank = message.from;
  interval.peer = message.to;
  interval.action.stage = static_cast<int32_t>(message.dimension);
  interval.action.microbatch = -1;
  interval.start = message.start;
  interval.end = message.end;
  interval.bytes = std::max<int64_t>(message.bytes, 0);
  interval.origin = trace::GraphPart{fmt::format("message {} → {}", message.origin, message.to)};
  add(std::move(interval));
}

trace::Trace AstraRecorder::take(const AstraLedger& ledger) {
  CHECK(nodes_.empty() && phases_.empty(), "{} nodes and {} phases have not ended", nodes_.size(),
        phases_.size());
  trace::Trace out;
  trace::GraphRun& run = out.header.graph.emplace();
  const auto row = [&](std::string label, const trace::ExposedTime& time) {
    run.exposed.push_back({std::move(label), time});
  };
  const int32_t npus = ledger.npus();
  if (npus > 1) row(fmt::format("mean of {} ranks", npus), ledger.exposed_mean());
  if (npus > 1)
    row(fmt::format("rank {}, the last to end", ledger.last()), ledger.exposed(ledger.last()));
  for (int32_t npu = 0; npu < npus; ++npu) {
    const int32_t rank = rank_of_[static_cast<size_t>(npu)];
    if (rank < 0) continue;
    trace::RankLabel label;
    label.rank = npu;
    label.stands_for = ledger.stands_for(rank);
    row(label.stands_for > 1 ? fmt::format("rank {}, for {}", npu, label.stands_for)
                             : fmt::format("rank {}", npu),
        ledger.exposed(npu));
    out.header.ranks.push_back(std::move(label));
  }
  run.dimensions = ledger.dimensions();
  if (ranks_ < ranks_in_all_) {
    run.left_out.push_back(fmt::format(
        "{} of {} simulated ranks are drawn; --trace-ranks draws more. Figures are over all.",
        ranks_, ranks_in_all_));
  }
  if (ranks_in_all_ < npus) {
    run.left_out.push_back(fmt::format(
        "Ranks that do the same at the same times were simulated once: {} stand for {}.",
        ranks_in_all_, npus));
  }
  if (left_out_ > 0) {
    run.left_out.push_back(
        fmt::format("{} intervals are left out, those that ended last.", left_out_));
  }
  out.intervals = std::move(intervals_);
  trace::normalize(out);
  return out;
}

}  // namespace tombolo::astra
