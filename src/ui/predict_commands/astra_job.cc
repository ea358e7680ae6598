#include "ui/predict_commands/astra_job.h"

#include <iostream>

#include "predict/astra/workload_run.h"
#include "spec/plan/job.h"
#include "ui/command/input.h"

namespace tombolo::predict_commands {
namespace {

constexpr int64_t kNodesMax = int64_t{1} << 25;  // some 5 GB

Result<workload::Workload> workload_of(const plan::Job& job,
                                       const workload::WorkloadOptions& options) {
  workload::Workload workload = TRY(workload::Workload::make(job, options));
  for (const std::string& note : workload.notes()) std::cerr << "note: " << note << "\n";
  return workload;
}

// An NPU of ASTRA-sim has one memory, whatever its datacenter.
Status one_memory(const plan::Job& job) {
  const cluster::Datacenter& first = job.cluster.datacenters.front();
  for (const cluster::Datacenter& each : job.cluster.datacenters) {
    if (each.device.memory_bandwidth == first.device.memory_bandwidth) continue;
    return unusable(
        fmt::format("{}: cluster: {} of {} and {} of {} reduce at different rates", job.file,
                    first.device.name, first.name, each.device.name, each.name),
        "a system file: --system-configuration=system.json");
  }
  return {};
}

// From the files, and where there is none from the job's cluster.
Result<astra::AstraSystem> system_for(const plan::Job& job, int32_t ranks,
                                      const astra::AstraOptions& options) {
  network::Topology topology = options.network.empty()
                                   ? TRY(astra::network_of(job, ranks))
                                   : TRY(network::read_topology(options.network));
  if (!options.system.empty()) {
    return astra::make_astra_system(std::move(topology), TRY(astra::read_system(options.system)),
                                    options);
  }
  TRY(one_memory(job));
  astra::SystemSettings settings =
      options.network.empty() ? TRY(astra::system_on(job, topology, options.groups))
                              : astra::system_of(job, topology.dimensions(), options.groups);
  return astra::make_astra_system(std::move(topology), std::move(settings), options);
}

}  // namespace

Result<workload::Workload> workload_of_job(const std::string& file,
                                           const workload::WorkloadOptions& options) {
  return workload_of(TRY(command::read_job(file)), options);
}

Result<astra::WorkloadAnswer> run_job(const workload::Workload& workload,
                                      const astra::AstraSystem& system,
                                      const astra::AstraOptions& options) {
  astra::WorkloadRunOptions run;
  run.machine = options.machine;
  run.machine.memory = &system.memory;
  run.collapse = options.collapse;
  return astra::run_workload(workload, system.topology, system.settings, run);
}

Result<JobAnswer> run_job(const std::string& file, const workload::WorkloadOptions& of_workload,
                          const astra::AstraOptions& options) {
  const plan::Job job = TRY(command::read_job(file));
  const workload::Workload workload = TRY(workload_of(job, of_workload));
  const astra::AstraSystem system = TRY(system_for(job, workload.ranks(), options));
  JobAnswer out;
  out.microbatches = workload.microbatches();
  out.run = TRY(run_job(workload, system, options));
  if (options.network.empty() && options.system.empty() && hierarchical(system.settings)) {
    out.notes = compared_with_estimate(job, out.run.answer);
  }
  for (const std::string& note : out.notes) std::cerr << "note: " << note << "\n";
  return out;
}

Result<astra::AstraAnswer> run_retargeted(const chakra::RetargetOptions& retarget,
                                          const astra::AstraOptions& options) {
  return run_retargeted(retarget, TRY(astra::read_astra_system(options)), options, true);
}

Result<astra::AstraAnswer> run_retargeted(const chakra::RetargetOptions& retarget,
                                          const astra::AstraSystem& system,
                                          const astra::AstraOptions& options, bool notes) {
  if (retarget.ranks != system.topology.npus()) {
    return unusable(fmt::format("--retarget={}: the network has {} NPUs", retarget.ranks,
                                system.topology.npus()),
                    fmt::format("--retarget={}", system.topology.npus()));
  }
  chakra::TracedRun run =
      TRY(chakra::read_run(options.workload.prefix, options.workload.comm_groups));
  const chakra::Retarget traces =
      TRY(during(chakra::Retarget::make(std::move(run.graphs), run.groups, retarget),
                 "reading " + options.workload.prefix + ".*.et"));
  if (notes) std::cerr << "note: " << traces.brief() << "\n";
  if (traces.nodes() > kNodesMax) {
    return unusable(fmt::format("--retarget={}: {} nodes, more than {}", retarget.ranks,
                                traces.nodes(), kNodesMax),
                    "fewer ranks, or --job, which makes no graphs of ranks that are alike");
  }
  std::vector<int32_t> ranks;
  for (int32_t rank = 0; rank < traces.ranks(); ++rank) ranks.push_back(rank);
  std::vector<astra::Group> groups;
  for (const auto& [name, members] : traces.groups()) {
    groups.emplace_back(std::stoll(name), members);  // numbered by Retarget
  }
  const astra::RankPrograms workload = TRY(astra::make_workload(
      ranks, [&](int32_t rank) -> Result<graph::Graph> { return traces.graph(rank); },
      std::move(groups), system.topology, system.settings, options.workload.names));
  astra::MachineOptions machine = options.machine;
  machine.memory = &system.memory;
  return astra::run_astra(system.topology, system.settings, workload, machine, options.collapse);
}

std::string JobAnswer::brief(const astra::AstraAnswer& answer) const {
  std::string text = fmt::format(
      "note: {} microbatches per pipeline; {} ranks make {} collectives, {} computations and {} "
      "messages; {} were simulated",
      microbatches, answer.npus, run.count.collectives, run.count.computations, run.count.messages,
      answer.report.ranks.size());
  if (!run.not_collapsed.empty()) text += ": " + run.not_collapsed;
  return text;
}

Value JobAnswer::to_value(const astra::AstraAnswer& answer) const {
  Value::Table out{{"microbatches", int64_t{microbatches}},
                   {"nodes", run.count.nodes},
                   {"computations", run.count.computations},
                   {"collectives", run.count.collectives},
                   {"messages", run.count.messages},
                   {"simulated_ranks", static_cast<int64_t>(answer.report.ranks.size())}};
  if (!run.not_collapsed.empty()) out.emplace_back("not_collapsed", run.not_collapsed);
  if (!notes.empty()) out.emplace_back("notes", Value::Array(notes.begin(), notes.end()));
  return out;
}

}  // namespace tombolo::predict_commands
