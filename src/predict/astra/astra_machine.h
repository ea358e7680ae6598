// AstraMachine: all ranks of a system at work, in virtual time, by ASTRA-sim's rules.
//
// Four parts, each of which can be read alone, and the interfaces between them are in
// machine_common.h; here is the loop that takes events from the queue and gives each to its part:
//
//   AstraRanks         a rank works off its Program                        astra_ranks.h
//   AstraCollectives   chunks, their queues, the phases where ranks meet   astra_collectives.h
//   AstraMessages      sends meet receives; a law carries messages         astra_messages.h
//   AstraMemory        loads from remote memory and stores to it           astra_memory.h
//
// Under the law `analytical` a phase is worked out as a whole. With whole_phases off, always under
// any other law, and where ranks take turns at a remote memory, every message is played.
//
// Determinism: events of one instant happen in ASTRA-sim's order (astra_alarms.h), so that answers
// are equal to the cycle. Cost: docs/guide/astra-sim.md.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "predict/astra/astra_collectives.h"
#include "predict/astra/astra_memory.h"
#include "predict/astra/astra_messages.h"
#include "predict/astra/astra_ranks.h"
#include "predict/astra/machine_common.h"

namespace tombolo::astra {

struct MachineReport {
  std::vector<RankReport> ranks;  // of each class, where classes were simulated
  uint64_t events = 0;
  std::string fingerprint;
  bool themis_in_vain = false;  // asked for, and no collective goes through several dimensions
  std::vector<graph::CollectiveType> short_lists = {};  // CollectivePlanner::short_lists
  // With hierarchical groups, of those that are rings for all that (network/group_layout.h): one
  // for each number of ranks.
  std::map<size_t, std::vector<int32_t>> scattered_groups = {};
};

class AstraMachine {
 public:
  // All must outlive the machine.
  AstraMachine(const network::Topology& topology, const SystemSettings& settings,
               const RankPrograms& workload, const MachineOptions& options = {});

  // Call once. Failed, naming a rank and a node: some rank waits forever (for a message or for a
  // member of a collective that never comes).
  Result<MachineReport> run();

  // After a run with classes: members of a phase do not end together, so its report is meaningless.
  bool apart() const { return common_.apart; }

 private:
  void happen(const engine::Event& event);
  void ring(int32_t rank, const Alarm& alarm);

  Common common_;
  AstraMessages messages_;
  AstraMemory memory_;
  AstraCollectives collectives_;
  AstraRanks ranks_;
  bool ran_ = false;
};

}  // namespace tombolo::astra
