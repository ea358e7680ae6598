#include "cli/astra_job.h"

#include <iostream>

#include "plan/job.h"

namespace tombolo::cli {

Result<JobAnswer> run_job(const std::string& file, const std::string& granularity,
                          const sim::AstraOptions& options) {
  const plan::Job job = TRY(plan::read_job(file));
  const sim::AstraSystem system = TRY(sim::read_astra_system(options));
  const planner::Workload workload = TRY(planner::Workload::make(
      job, {.granularity = granularity == "stage" ? planner::Granularity::kStage
                                                  : planner::Granularity::kLayer}));
  for (const std::string& note : workload.notes()) std::cerr << "note: " << note << "\n";
  planner::WorkloadRunOptions run;
  run.machine = options.machine;
  run.machine.memory = &system.memory;
  run.collapse = options.collapse;
  JobAnswer out;
  out.microbatches = workload.microbatches();
  out.run = TRY(planner::run_workload(workload, system.topology, system.settings, run));
  return out;
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
