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
#include "predict/astra/astra_system.h"
#include "predict/network/topology.h"
#include "predict/workload/workload.h"
#include "spec/plan/job.h"

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

// The network and the NPUs that a job's cluster describes, as ASTRA-sim's inputs would say it: for
// who asks about a job and has no files.
//
// GPUs of a scale-up domain hang on one switch; domains, if there are several, hang on another by
// as many links as there are GPUs, GPU i of each to GPU i of the others. A link has the share of the
// bandwidth of scale_up or scale_out that collectives reach, as `estimate` takes it (cost/constants.h),
// and half of its latency, for there are two to a message. Ranks that fill no whole domains take as many
// GPUs of each as `estimate` lays their groups over: 12 ranks with tensor 4 on domains of 8 are 4 in
// each of 3. Bounds: one datacenter.
//
// Groups are laid over both, with rings in each and messages of experts to whom they are for; four
// chunks, `localBWAware`; no delay at endpoints. On a network of one's own (system_of) reductions
// take the memory bandwidth of the device. On that of the cluster (system_on) they are part of what
// collectives reach, and a collective of hierarchical groups takes the start-up that `estimate`
// counts.
//
// Unusable: several datacenters; an unknown stack; ranks that are another number than the job has.
Result<network::Topology> network_of(const plan::Job& job, int32_t ranks);
SystemSettings system_of(const plan::Job& job, size_t dimensions,
                         GroupShape groups = GroupShape::kHierarchical);
Result<SystemSettings> system_on(const plan::Job& job, const network::Topology& of_cluster,
                                 GroupShape groups = GroupShape::kHierarchical);

}  // namespace tombolo::astra
