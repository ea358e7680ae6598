#include "sim/astra_run.h"

#include <algorithm>
#include <cmath>

namespace tombolo::sim {
namespace {

// Nodes that need a remote memory have one, and ask for what it can give.
Status check_accesses(const Workload& workload, const network::ExpandedMemory* memory) {
  const Program* seen = nullptr;
  for (size_t rank = 0; rank < workload.programs.size(); ++rank) {
    const Program* program = workload.programs[rank];
    if (program == seen) continue;
    seen = program;
    for (const Program::Node& node : program->nodes) {
      if (!accesses_memory(node)) continue;
      const std::string text =
          fmt::format("node {} of rank {} ({})", node.id, rank, to_name(node.type));
      if (memory == nullptr || !memory->exists()) {
        return unusable(text + " needs a remote memory, and there is none",
                        "--remote-memory-configuration=FILE with a \"memory-type\", or "
                        "\"replay-only\": 1 in the system file, which takes the durations of the "
                        "trace");
      }
      TRY(during(memory->check(node.tensor_bytes), "reading " + text));
    }
  }
  return {};
}

Result<network::ExpandedMemory> read_memory(const std::string& path, int32_t npus) {
  network::MemoryExpansionFile file;
  if (!path.empty()) file = TRY(network::read_memory_expansion(path));
  return during(network::ExpandedMemory::create(file, npus), "reading " + path);
}

}  // namespace

SimTime AstraAnswer::finish() const {
  SimTime last;
  for (const RankReport& rank : report.ranks) last = std::max(last, rank.finish);
  return last;
}

Result<AstraAnswer> run_astra(const network::Topology& topology, const SystemSettings& settings,
                              const Workload& workload, const MachineOptions& machine,
                              bool collapse) {
  AstraAnswer out;
  out.npus = topology.npus();
  out.topology = topology.text();
  out.roofline = settings.roofline;
  if (!settings.replay_only) TRY(check_accesses(workload, machine.memory));
  const bool shared = machine.memory != nullptr && machine.memory->shared();
  if (collapse && !shared && machine.law == NetworkLaw::kAnalytical && machine.whole_phases) {
    if (auto classes = find_classes(workload, topology, settings)) {
      MachineOptions of_classes = machine;
      of_classes.classes = &*classes;
      AstraMachine representatives(topology, settings, workload, of_classes);
      Result<MachineReport> report = representatives.run();
      if (report && !representatives.apart()) {
        out.report = std::move(*report);
        out.class_of = std::move(classes->class_of);
        return out;
      }
    }
  }
  AstraMachine all(topology, settings, workload, machine);
  out.report = TRY(all.run());
  return out;
}

Result<AstraAnswer> run_astra(const AstraOptions& options) {
  const network::Topology topology = TRY(network::read_topology(options.network));
  SystemSettings settings = TRY(read_system(options.system));
  const network::ExpandedMemory memory = TRY(read_memory(options.remote_memory, topology.npus()));
  settings.endpoint_delay = static_cast<int64_t>(
      std::trunc(static_cast<double>(settings.endpoint_delay) * options.injection_scale));
  const Workload workload = TRY(read_workload(options.workload, topology, settings));
  MachineOptions machine = options.machine;
  machine.memory = &memory;
  return run_astra(topology, settings, workload, machine, options.collapse);
}

}  // namespace tombolo::sim
