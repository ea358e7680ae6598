#include "sim/astra_run.h"

#include <algorithm>
#include <cmath>

#include "base/file.h"
#include "base/json.h"

namespace tombolo::sim {
namespace {

constexpr const char* kNoMemoryExpansion = "NO_MEMORY_EXPANSION";

struct RemoteMemory {
  std::string type;
};
template <class Archive>
void describe(Archive& a, RemoteMemory& memory) {
  a.required("memory-type", memory.type);
  a.check(memory.type == kNoMemoryExpansion, "memory-type", "remote memory is not simulated",
          kNoMemoryExpansion);
}

Status check_remote_memory(const std::string& path) {
  if (path.empty()) return {};
  const std::string text = TRY(read_file(path, 1 << 20));
  TRY(read_fields<RemoteMemory>(TRY(parse_json(text, path)), path));
  return {};
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
  if (collapse && machine.law == NetworkLaw::kAnalytical && machine.whole_phases) {
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
  TRY(check_remote_memory(options.remote_memory));
  settings.endpoint_delay = static_cast<int64_t>(
      std::trunc(static_cast<double>(settings.endpoint_delay) * options.injection_scale));
  const Workload workload = TRY(read_workload(options.workload, topology, settings));
  return run_astra(topology, settings, workload, options.machine, options.collapse);
}

}  // namespace tombolo::sim
