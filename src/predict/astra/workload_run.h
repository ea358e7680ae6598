// A job asked of a network without files: what `convert JOB --to chakra` would write, simulated.
//
// Ranks of one stage of a pipeline run equal Programs up to which ranks and groups these name. Who
// meets whom over which links is arithmetic on their numbers (astra/astra_classes.h), so one graph
// and one Program per class of ranks is made, and as many are simulated. Where classes would not be
// exact, every rank is.
//
// Memory: the Programs that are simulated, at most kNodesMax nodes, and some tens of bytes per
// rank. Cost: O(ranks * rounds of the refinement) and the simulation of the classes.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"
#include "predict/astra/astra_run.h"
#include "predict/workload/workload.h"

namespace tombolo::astra {

// Over all ranks, however many of them were simulated.
struct WorkloadCount {
  int64_t nodes = 0, computations = 0, collectives = 0, messages = 0;
};

struct WorkloadAnswer {
  AstraAnswer answer;
  WorkloadCount count;
  std::string not_collapsed;  // why every rank was simulated
};

struct WorkloadRunOptions {
  MachineOptions machine;
  bool collapse = true;
  int64_t nodes_max = int64_t{1} << 24;  // of all Programs that are made: some 2 GB
};

// Unusable: another number of NPUs than ranks; more nodes than nodes_max; what run_astra refuses.
Result<WorkloadAnswer> run_workload(const workload::Workload& workload,
                                    const network::Topology& topology,
                                    const SystemSettings& settings,
                                    const WorkloadRunOptions& options);

}  // namespace tombolo::astra
