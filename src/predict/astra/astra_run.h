// run_astra: ASTRA-sim's input files in, ASTRA-sim's answer out.
//
// Ranks that do the same at the same times are simulated once (astra_classes.h). That is exact as
// long as all members of every phase end together, which is checked at every phase; where it does
// not hold, every rank is simulated.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "base/check.h"
#include "base/result.h"
#include "predict/astra/astra_local_memory.h"
#include "predict/astra/astra_machine.h"

namespace tombolo::astra {

struct AstraOptions {
  WorkloadFiles workload;
  std::string system;
  std::string network;
  std::string remote_memory;  // empty: there is none
  MachineOptions machine;
  GroupShape groups = GroupShape::kRing;
  bool collapse = true;        // one rank for each class of equal ranks, where that is exact
  double injection_scale = 1;  // of the endpoint delay
};

struct AstraAnswer {
  int32_t npus = 0;
  std::string topology;
  bool roofline = false;
  MachineReport report;
  // Where the system tracks memory; and the files that it wants written.
  std::shared_ptr<const AstraLocalMemory> local_memory;
  std::string memory_trace;
  std::vector<int32_t> class_of;  // per rank, where classes were simulated

  const RankReport& rank(int32_t r) const {
    CHECK(r >= 0 && r < npus, "rank {} of {}", r, npus);
    return report.ranks[static_cast<size_t>(collapsed() ? class_of[static_cast<size_t>(r)] : r)];
  }
  bool collapsed() const { return !class_of.empty(); }
  SimTime finish() const;  // of the last rank
};

Result<AstraAnswer> run_astra(const AstraOptions& options);

// What the files of system, network and remote memory say.
struct AstraSystem {
  network::Topology topology;
  SystemSettings settings;
  network::ExpandedMemory memory;
};
Result<AstraSystem> read_astra_system(const AstraOptions& options);
// The same with another network and other settings than the files'.
Result<AstraSystem> make_astra_system(network::Topology topology, SystemSettings settings,
                                      const AstraOptions& options);

// Why every rank has to be simulated, whatever the workload; empty: one of each class may do.
std::string why_not_classes(const MachineOptions& machine, const SystemSettings& settings);

// By one rank of each class; nothing where members of a phase do not end together, so that this
// would not be exact.
Result<std::optional<AstraAnswer>> run_classes(const network::Topology& topology,
                                               const SystemSettings& settings,
                                               const RankPrograms& workload,
                                               const MachineOptions& machine, RankClasses classes);

// The same from what the files say.
Result<AstraAnswer> run_astra(const network::Topology& topology, const SystemSettings& settings,
                              const RankPrograms& workload, const MachineOptions& machine,
                              bool collapse);

}  // namespace tombolo::astra
