// ASTRA-sim's inputs: any bytes as network.yml, system.json, remote_memory.json and a group file,
// in this order, with lines "---" in between. Each gives what it describes or a message; and what a
// small network and a system describe can be asked for an all-reduce and a load, under every law:
// every rank finishes, or a message says why not.
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "predict/astra/astra_run.h"
#include "predict/astra/astra_system.h"
#include "predict/network/memory_expansion.h"
#include "predict/network/topology.h"
#include "spec/chakra/comm_groups.h"

namespace {

using namespace tombolo;

std::vector<std::string> split(std::string_view text) {
  std::vector<std::string> parts;
  for (size_t at = 0; parts.size() < 4; at += 5) {
    const size_t end = text.find("\n---\n", at);
    parts.emplace_back(text.substr(at, end == std::string_view::npos ? end : end - at));
    if (end == std::string_view::npos) break;
    at = end;
  }
  parts.resize(4);
  return parts;
}

template <typename T>
const T* said(const Result<T>& result) {
  if (result) return &*result;
  CHECK(!result.error().message.empty(), "refused without a word");
  return nullptr;
}

void run_all_laws(const network::Topology& topology, const astra::SystemSettings& settings,
                  const Result<astra::RankPrograms>& workload,
                  const std::optional<network::ExpandedMemory>& memory) {
  if (!said(workload)) return;
  for (const astra::NetworkLaw law : {astra::NetworkLaw::kAnalytical,
                                      astra::NetworkLaw::kCongestion, astra::NetworkLaw::kFluid}) {
    astra::MachineOptions machine;
    machine.law = law;
    if (memory) machine.memory = &*memory;
    said(astra::run_astra(topology, settings, *workload, machine, true));
  }
}

void simulate(const network::Topology& topology, const astra::SystemSettings& settings,
              const network::MemoryExpansionFile* file) {
  graph::Node reduce;
  reduce.type = graph::NodeType::kCollective;
  reduce.comm_size = 1000;
  graph::Node load;
  load.id = 1;
  load.type = graph::NodeType::kMemoryLoad;
  load.tensor_size = 1000;
  load.data_deps = {0};
  graph::Graph graph{0, {reduce}};
  std::optional<network::ExpandedMemory> memory;
  if (file != nullptr) {
    auto created = network::ExpandedMemory::create(*file, topology.npus());
    if (!said(created)) return;
    memory = std::move(*created);
    if (memory->exists()) graph.nodes.push_back(load);
  }
  run_all_laws(topology, settings, astra::make_workload({graph}, {}, topology, settings), memory);
  // Halves of the system, which a hierarchy lays over their dimensions where they are products.
  if (topology.npus() < 2) return;
  astra::SystemSettings hierarchical = settings;
  hierarchical.groups = astra::GroupShape::kHierarchical;
  graph::Graphs graphs;
  chakra::CommGroups groups;
  for (int32_t rank = 0; rank < topology.npus(); ++rank) {
    graphs.push_back({rank, {reduce}});
    const char* const half = rank < topology.npus() / 2 ? "1" : "2";
    graphs.back().nodes[0].details.edit().pg_name = half;
    groups[half].push_back(rank);
  }
  run_all_laws(topology, hierarchical, astra::make_workload(graphs, groups, topology, hierarchical),
               memory);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto parts = split({reinterpret_cast<const char*>(data), size});
  const auto topology = network::parse_topology(parts[0], "network.yml");
  const auto settings = astra::parse_system(parts[1], "system.json");
  const auto memory = network::parse_memory_expansion(parts[2], "remote_memory.json");
  said(chakra::parse_comm_groups(parts[3], "groups.json"));
  const auto* net = said(topology);
  const auto* system = said(settings);
  const auto* pool = said(memory);
  // Time, not truth; and no files are read here.
  if (!net || !system || net->npus() > 32 || system->splits > 8) return 0;
  if (!system->custom.empty() || !system->custom_of_node.empty()) return 0;
  simulate(*net, *system, pool);
  return 0;
}
