#include "cli/astra_job.h"

#include <iostream>

#include "plan/job.h"
#include "planner/workload_network.h"

namespace tombolo::cli {
namespace {

constexpr int64_t kNodesMax = int64_t{1} << 25;  // some 5 GB

Result<planner::Workload> workload_of(const plan::Job& job,
                                      const planner::WorkloadOptions& options) {
  planner::Workload workload = TRY(planner::Workload::make(job, options));
  for (const std::string& note : workload.notes()) std::cerr << "note: " << note << "\n";
  return workload;
}

// From the files, and where there is none from the job's cluster.
Result<sim::AstraSystem> system_for(const plan::Job& job, int32_t ranks,
                                    const sim::AstraOptions& options) {
  network::Topology topology = options.network.empty()
                                   ? TRY(planner::network_of(job, ranks))
                                   : TRY(network::read_topology(options.network));
  sim::SystemSettings settings = options.system.empty()
                                     ? planner::system_of(job, topology.dimensions())
                                     : TRY(sim::read_system(options.system));
  return sim::make_astra_system(std::move(topology), std::move(settings), options);
}

}  // namespace

Result<planner::Workload> workload_of_job(const std::string& file,
                                          const planner::WorkloadOptions& options) {
  return workload_of(TRY(plan::read_job(file)), options);
}

Result<planner::WorkloadAnswer> run_job(const planner::Workload& workload,
                                        const sim::AstraSystem& system,
                                        const sim::AstraOptions& options) {
  planner::WorkloadRunOptions run;
  run.machine = options.machine;
  run.machine.memory = &system.memory;
  run.collapse = options.collapse;
  return planner::run_workload(workload, system.topology, system.settings, run);
}

Result<JobAnswer> run_job(const std::string& file, const planner::WorkloadOptions& of_workload,
                          const sim::AstraOptions& options) {
  const plan::Job job = TRY(plan::read_job(file));
  const planner::Workload workload = TRY(workload_of(job, of_workload));
  const sim::AstraSystem system = TRY(system_for(job, workload.ranks(), options));
  JobAnswer out;
  out.microbatches = workload.microbatches();
  out.run = TRY(run_job(workload, system, options));
  return out;
}

Result<sim::AstraAnswer> run_retargeted(const graph::RetargetOptions& retarget,
                                        const sim::AstraOptions& options) {
  return run_retargeted(retarget, TRY(sim::read_astra_system(options)), options, true);
}

Result<sim::AstraAnswer> run_retargeted(const graph::RetargetOptions& retarget,
                                        const sim::AstraSystem& system,
                                        const sim::AstraOptions& options, bool notes) {
  if (retarget.ranks != system.topology.npus()) {
    return unusable(fmt::format("--retarget={}: the network has {} NPUs", retarget.ranks,
                                system.topology.npus()),
                    fmt::format("--retarget={}", system.topology.npus()));
  }
  graph::TracedRun run =
      TRY(graph::read_run(options.workload.prefix, options.workload.comm_groups));
  const graph::Retarget traces =
      TRY(during(graph::Retarget::make(std::move(run.graphs), run.groups, retarget),
                 "reading " + options.workload.prefix + ".*.et"));
  if (notes) std::cerr << "note: " << traces.brief() << "\n";
  if (traces.nodes() > kNodesMax) {
    return unusable(fmt::format("--retarget={}: {} nodes, more than {}", retarget.ranks,
                                traces.nodes(), kNodesMax),
                    "fewer ranks, or --job, which makes no graphs of ranks that are alike");
  }
  std::vector<int32_t> ranks;
  for (int32_t rank = 0; rank < traces.ranks(); ++rank) ranks.push_back(rank);
  std::vector<sim::Group> groups;
  for (const auto& [name, members] : traces.groups()) {
    groups.emplace_back(std::stoll(name), members);  // numbered by Retarget
  }
  const sim::Workload workload = TRY(sim::make_workload(
      ranks, [&](int32_t rank) -> Result<graph::Graph> { return traces.graph(rank); },
      std::move(groups), system.topology, system.settings, options.workload.names));
  sim::MachineOptions machine = options.machine;
  machine.memory = &system.memory;
  return sim::run_astra(system.topology, system.settings, workload, machine, options.collapse);
}

std::string JobAnswer::brief(const sim::AstraAnswer& answer) const {
  std::string text = fmt::format(
      "note: {} micro-batches per pipeline; {} ranks make {} collectives, {} computations and {} "
      "messages; {} were simulated",
      microbatches, answer.npus, run.count.collectives, run.count.computations, run.count.messages,
      answer.report.ranks.size());
  if (!run.not_collapsed.empty()) text += ": " + run.not_collapsed;
  return text;
}

Value JobAnswer::to_value(const sim::AstraAnswer& answer) const {
  Value::Table out{{"microbatches", int64_t{microbatches}},
                   {"nodes", run.count.nodes},
                   {"computations", run.count.computations},
                   {"collectives", run.count.collectives},
                   {"messages", run.count.messages},
                   {"simulated_ranks", static_cast<int64_t>(answer.report.ranks.size())}};
  if (!run.not_collapsed.empty()) out.emplace_back("not_collapsed", run.not_collapsed);
  return out;
}

}  // namespace tombolo::cli
