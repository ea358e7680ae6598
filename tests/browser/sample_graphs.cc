#include "sample_graphs.h"

#include "predict/astra/astra_recorder.h"
#include "predict/astra/astra_run.h"

namespace tombolo::report {
namespace {

using graph::Node;
using graph::NodeType;

Node compute(int64_t id, const char* name, int64_t operations, int64_t bytes,
             std::vector<int64_t> after) {
  Node out;
  out.id = id;
  out.name = name;
  out.num_ops = operations;
  out.tensor_size = bytes;
  out.data_deps = std::move(after);
  return out;
}

Node communicate(int64_t id, const char* name, NodeType type, int64_t bytes,
                 std::vector<int64_t> after, int32_t peer = -1) {
  Node out;
  out.id = id;
  out.name = name;
  out.type = type;
  out.comm_size = bytes;
  out.comm_peer = peer;
  out.data_deps = std::move(after);
  return out;
}

graph::Graph rank_graph(int32_t rank, bool messages) {
  Node input = compute(0, "load batch", 0, 0, {});
  input.is_cpu_op = true;
  input.duration = SimDuration{60'000};
  graph::Graph out{rank,
                   {input, compute(1, "attention backward", 40'000'000'000, 200'000'000, {0}),
                    communicate(2, "attention gradients", NodeType::kCollective, 32 << 20, {1}),
                    compute(3, "</script><b>ffn</b> backward", 30'000'000'000, 900'000'000, {1}),
                    communicate(4, "ffn gradients", NodeType::kCollective, 64 << 20, {3}),
                    compute(5, "optimizer", 1'000'000'000, 400'000'000, {2, 4})}};
  if (!messages) return out;
  const int32_t peer = rank ^ 1;
  out.nodes.push_back(communicate(6, "boundary", NodeType::kSend, 4 << 20, {1}, peer));
  out.nodes.push_back(communicate(7, "boundary", NodeType::kReceive, 4 << 20, {0}, peer));
  return out;
}

}  // namespace

Result<trace::Trace> sample_graphs(bool collapsed) {
  const auto topology = TRY(network::Topology::create(
      {{network::Block::kRing, 4, 200, 300}, {network::Block::kSwitch, 4, 50, 500}}));
  astra::SystemSettings settings;
  settings.splits = 4;
  settings.roofline = true;
  settings.peak_performance = 100;
  settings.memory_bandwidth = 1600;
  settings.all_reduce_shape = astra::AllReduceShape::kLocalBandwidthAware;
  settings.algorithms[graph::CollectiveType::kAllReduce] = {*network::parse_algorithm("ring"),
                                                            *network::parse_algorithm("direct")};
  graph::Graphs graphs;
  const int32_t count = collapsed ? 1 : topology.npus();
  for (int32_t rank = 0; rank < count; ++rank) graphs.push_back(rank_graph(rank, !collapsed));
  const astra::RankPrograms workload =
      TRY(astra::make_workload(graphs, {}, topology, settings, true));
  astra::AstraLedger ledger;
  astra::AstraRecorder recorder({.ranks_max = 4});
  astra::MachineOptions machine;
  machine.observers = {&ledger, &recorder};
  TRY(astra::run_astra(topology, settings, workload, machine, collapsed));
  trace::Trace out = recorder.take(ledger);
  out.header.name = "two-layers";
  out.header.command = "tombolo astra --workload-configuration=two-layers";
  out.header.version = "0.1.0";
  out.header.graph->inputs = {{"network", topology.text()},
                              {"NPUs", fmt::format("{}", topology.npus())},
                              {"law", "analytical"},
                              {"system file", "system.json"}};
  return out;
}

}  // namespace tombolo::report
