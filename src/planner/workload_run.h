// A job asked of a network without files: what `convert JOB --to chakra` would write, simulated.
//
// Ranks of one stage of a pipeline run equal Programs up to which ranks and groups these name. Who
// meets whom over which links is arithmetic on their numbers (sim/astra_classes.h), so one graph
// and one Program per class of ranks is made, and as many are simulated. Where classes would not be
// exact, every rank is.
//
// Memory: the Programs that are simulated, at most kNodesMax nodes, and some tens of bytes per
// rank. Cost: O(ranks * rounds of the refinement) and the simulation of the classes.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"
#include "planner/workload.h"
#include "sim/astra_run.h"

namespace tombolo::planner {

// Over all ranks, however many of them were simulated.
struct WorkloadCount {
  int64_t nodes = 0, computations = 0, collectives = 0, messages = 0;
};

struct WorkloadAnswer {
  sim::AstraAnswer answer;
  WorkloadCount count;
  std::string not_collapsed;  // why every rank was simulated
};

struct WorkloadRunOptions {
  sim::MachineOptions machine;
  bool collapse = true;
  int64_t nodes_max = int64_t{1} << 24;  // of all Programs that are made: some 2 GB
};

// Unusable: another number of NPUs than ranks; more nodes than nodes_max; what run_astra refuses.
Result<WorkloadAnswer> run_workload(const Workload& workload, const network::Topology& topology,
                                    const sim::SystemSettings& settings,
                                    const WorkloadRunOptions& options);

}  // namespace tombolo::planner
