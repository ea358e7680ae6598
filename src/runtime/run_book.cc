#include "runtime/run_book.h"

#include <algorithm>

#include "plan/plan_file.h"

namespace tombolo::runtime {

RunBook::RunBook(const plan::Plan& plan, int64_t first_iteration)
    : steps_(plan.run.steps),
      tokens_(tokens_per_iteration(plan)),
      ranks_(plan.ranks.size()),
      steps_done_(first_iteration - 1) {}

std::optional<Progress> RunBook::add(const IterationReport& report) {
  const auto [it, is_new] =
      open_.try_emplace(report.iteration, Open{0, report.start, report.end, {}});
  Open& open = it->second;
  ++open.reports;
  open.start = std::min(open.start, report.start);
  open.end = std::max(open.end, report.end);
  if (report.loss) open.loss = report.loss;
  if (open.reports < ranks_) return std::nullopt;

  const SimDuration duration = open.end - open.start;
  durations_.push_back(duration);
  if (!first_loss_) first_loss_ = open.loss;
  final_loss_ = open.loss;
  steps_done_ = report.iteration;
  const Progress progress{.step = report.iteration,
                          .steps = steps_,
                          .loss = open.loss,
                          .evaluation_loss = evaluation_loss_,
                          .tokens_per_s = tokens_ / std::max(seconds(duration).value, 1e-9),
                          .iteration = seconds(duration),
                          .remaining = median() * static_cast<double>(steps_ - report.iteration)};
  open_.erase(it);
  return progress;
}

// The first iteration pays for caches, memory and the links' slow start.
Seconds RunBook::median() const {
  if (durations_.empty()) return 0_s;
  std::vector<SimDuration> sorted(durations_.begin() + (durations_.size() > 1 ? 1 : 0),
                                  durations_.end());
  std::sort(sorted.begin(), sorted.end());
  const size_t middle = sorted.size() / 2;
  if (sorted.size() % 2 == 1) return seconds(sorted[middle]);
  return (seconds(sorted[middle - 1]) + seconds(sorted[middle])) / 2;
}

RunSummary RunBook::summary() const {
  RunSummary out{.steps = steps_done_,
                 .first_loss = first_loss_,
                 .final_loss = final_loss_,
                 .evaluation_loss = evaluation_loss_,
                 .iteration = median()};
  if (out.iteration.value > 0) out.tokens_per_s = tokens_ / out.iteration.value;
  return out;
}

trace::Trace merge_parts(const plan::Plan& plan, std::vector<trace::Trace> parts,
                         const std::string& command, const std::string& version) {
  trace::Trace out;
  trace::Header& header = out.header;
  header.provenance = trace::Provenance::kMeasured;
  header.name = plan.name;
  header.command = command;
  header.version = version;
  header.plan_digest = plan::plan_digest(plan);
  header.seed = plan.run.seed;
  header.plan = plan::to_value(plan);
  for (const plan::Placement& placement : plan.ranks) {
    const cluster::Device& device = plan.device_of(placement.rank);
    if (device.kind == cluster::DeviceKind::kEmulated) {
      header.provenance = trace::Provenance::kEmulated;
    }
    header.ranks.push_back({placement.rank, placement.stage, placement.datacenter, device.name});
  }
  for (trace::Trace& part : parts) {
    out.intervals.insert(out.intervals.end(), part.intervals.begin(), part.intervals.end());
    out.records.insert(out.records.end(), part.records.begin(), part.records.end());
  }
  for (const trace::IterationTime& time : trace::iteration_times(out)) {
    const Seconds span = seconds(time.end - time.start);
    if (span.value <= 0) continue;
    out.records.push_back(
        {"tokens_per_s", time.iteration, 0, time.end, tokens_per_iteration(plan) / span.value});
  }
  trace::normalize(out);
  return out;
}

double tokens_per_iteration(const plan::Plan& plan) {
  return static_cast<double>(plan.training.global_batch) * static_cast<double>(plan.model.sequence);
}

}  // namespace tombolo::runtime
