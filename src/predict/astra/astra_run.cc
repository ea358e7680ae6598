#include "predict/astra/astra_run.h"

#include <algorithm>
#include <cmath>

namespace tombolo::astra {
namespace {

// Nodes that need a remote memory have one, and ask for what it can give.
Status check(const RankPrograms& workload, const SystemSettings& settings,
             const MachineOptions& machine) {
  const auto names_tensors = [](const Program* program) {
    return program != nullptr && program->tensors && !program->tensors->names.empty();
  };
  if (settings.track_memory && !workload.of_traces &&
      std::none_of(workload.programs.begin(), workload.programs.end(), names_tensors)) {
    return unusable("track-local-mem: no node of the workload names the tensors that it touches",
                    "lists of name and bytes as \"inputs\" and \"outputs\" of nodes, or "
                    "\"track-local-mem\": 0");
  }
  if (settings.replay_only) return {};
  const network::ExpandedMemory* memory = machine.memory;
  const Program* seen = nullptr;
  for (size_t rank = 0; rank < workload.programs.size(); ++rank) {
    const Program* program = workload.programs[rank];
    if (program == seen || program == nullptr) continue;
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

Status check_law(const network::Topology& topology, const MachineOptions& machine) {
  if (!topology.has_wan() || machine.own_law || machine.law == NetworkLaw::kFluid) return {};
  return unusable(
      fmt::format("the network has a WAN, which the law {} does not know", to_name(machine.law)),
      "--law=fluid");
}

std::shared_ptr<AstraLocalMemory> track(const SystemSettings& settings, MachineOptions& machine) {
  if (!settings.track_memory) return nullptr;
  auto out = std::make_shared<AstraLocalMemory>();
  machine.observers.push_back(out.get());
  return out;
}

AstraAnswer answer_about(const network::Topology& topology, const SystemSettings& settings) {
  AstraAnswer out;
  out.npus = topology.npus();
  out.topology = topology.text();
  out.roofline = settings.roofline;
  out.memory_trace = settings.memory_trace;
  return out;
}

}  // namespace

SimTime AstraAnswer::finish() const {
  SimTime last;
  for (const RankReport& rank : report.ranks) last = std::max(last, rank.finish);
  return last;
}

std::string why_not_classes(const MachineOptions& machine, const SystemSettings& settings) {
  // Distances between ranks count as far as `analytical` looks: of groups as rings in one dimension
  // alone.
  const bool as_fluid = machine.law == NetworkLaw::kFluid && hierarchical(settings);
  const bool as_wholes = machine.law == NetworkLaw::kAnalytical && machine.whole_phases;
  if (machine.own_law || machine.rendezvous || !(as_fluid || as_wholes)) {
    return "every message is played";
  }
  if (machine.memory != nullptr && machine.memory->shared()) {
    return "NPUs wait for each other at a remote memory";
  }
  return {};
}

Result<std::optional<AstraAnswer>> run_classes(const network::Topology& topology,
                                               const SystemSettings& settings,
                                               const RankPrograms& workload,
                                               const MachineOptions& machine, RankClasses classes) {
  TRY(check_law(topology, machine));
  TRY(check(workload, settings, machine));
  MachineOptions of_classes = machine;
  const auto local_memory = track(settings, of_classes);
  of_classes.classes = &classes;
  AstraMachine representatives(topology, settings, workload, of_classes);
  MachineReport report = TRY(representatives.run());
  if (representatives.apart()) return std::optional<AstraAnswer>();
  AstraAnswer out = answer_about(topology, settings);
  out.local_memory = local_memory;
  out.report = std::move(report);
  out.class_of = std::move(classes.class_of);
  return std::optional(std::move(out));
}

Result<AstraAnswer> run_astra(const network::Topology& topology, const SystemSettings& settings,
                              const RankPrograms& workload, const MachineOptions& machine,
                              bool collapse) {
  TRY(check_law(topology, machine));
  TRY(check(workload, settings, machine));
  if (collapse && why_not_classes(machine, settings).empty()) {
    if (auto classes = find_classes(workload, topology, settings)) {
      auto some = run_classes(topology, settings, workload, machine, std::move(*classes));
      if (some && *some) return std::move(**some);
    }
  }
  MachineOptions of_all = machine;
  const auto local_memory = track(settings, of_all);
  AstraMachine all(topology, settings, workload, of_all);
  AstraAnswer out = answer_about(topology, settings);
  out.local_memory = local_memory;
  out.report = TRY(all.run());
  return out;
}

Result<AstraSystem> read_astra_system(const AstraOptions& options) {
  network::Topology topology = TRY(network::read_topology(options.network));
  return make_astra_system(std::move(topology), TRY(read_system(options.system)), options);
}

Result<AstraSystem> make_astra_system(network::Topology topology, SystemSettings settings,
                                      const AstraOptions& options) {
  network::ExpandedMemory memory = TRY(read_memory(options.remote_memory, topology.npus()));
  settings.groups = options.groups;
  settings.endpoint_delay = static_cast<int64_t>(
      std::trunc(static_cast<double>(settings.endpoint_delay) * options.injection_scale));
  return AstraSystem{std::move(topology), std::move(settings), std::move(memory)};
}

Result<AstraAnswer> run_astra(const AstraOptions& options) {
  const AstraSystem system = TRY(read_astra_system(options));
  const RankPrograms workload =
      TRY(read_workload(options.workload, system.topology, system.settings));
  MachineOptions machine = options.machine;
  machine.memory = &system.memory;
  return run_astra(system.topology, system.settings, workload, machine, options.collapse);
}

}  // namespace tombolo::astra
