// run_astra: ASTRA-sim's input files in, ASTRA-sim's answer out.
//
// Where all ranks run one Program that names no rank, and the network treats them alike, one of
// them is simulated for all. That is exact as long as every phase begins and ends at one instant
// for all its members, which is checked at every phase; where it does not hold, all ranks are
// simulated.
#pragma once

#include <string>

#include "base/result.h"
#include "sim/astra_machine.h"

namespace tombolo::sim {

struct AstraOptions {
  WorkloadFiles workload;
  std::string system;
  std::string network;
  std::string remote_memory;  // empty: there is none
  MachineOptions machine;
  bool collapse = true;        // one rank for all where that is exact
  double injection_scale = 1;  // of the endpoint delay
};

struct AstraAnswer {
  int32_t npus = 0;
  std::string topology;
  bool roofline = false;
  MachineReport report;

  const RankReport& rank(int32_t r) const {
    return report.ranks[report.ranks.size() == 1 ? 0 : static_cast<size_t>(r)];
  }
  bool collapsed() const { return npus > 1 && report.ranks.size() == 1; }
  SimTime finish() const;  // of the last rank
};

Result<AstraAnswer> run_astra(const AstraOptions& options);

// The same from what the files say.
Result<AstraAnswer> run_astra(const network::Topology& topology, const SystemSettings& settings,
                              const Workload& workload, const MachineOptions& machine,
                              bool collapse);

}  // namespace tombolo::sim
