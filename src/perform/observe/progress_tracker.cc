#include "perform/observe/progress_tracker.h"

#include <algorithm>
#include <numeric>

#include "base/check.h"
#include "base/quantiles.h"
#include "spec/plan/plan_file.h"
#include "spec/schedule/local_steps.h"
#include "spec/trace/compare.h"

namespace tombolo::observe {
namespace {

// Of values by rank, each with its weight; in the order of ranks.
struct Weighted {
  double value = 0;
  double weight = 1;
};
std::optional<double> mean(const std::map<int32_t, Weighted>& parts) {
  double sum = 0, weights = 0;
  for (const auto& [rank, part] : parts) {
    sum += part.value * part.weight;
    weights += part.weight;
  }
  return weights > 0 ? std::optional(sum / weights) : std::nullopt;
}

std::string place_of(const plan::Plan& plan, int32_t rank) {
  return fmt::format("rank {} ({}, replica {})", rank, plan.ranks[rank].datacenter,
                     plan.ranks[rank].replica);
}

// The microbatches of a rank's pipeline, as a share of those of the pipeline with most.
double share_of_batch(const plan::Plan& plan, int32_t rank) {
  return static_cast<double>(plan.microbatches_of(plan.ranks[rank].replica)) /
         static_cast<double>(plan.microbatches());
}

// Adds one record per iteration: the mean of what the replicas recorded under `part`, weighted by what they
// recorded under `weight`, else by their samples.
void add_means(const plan::Plan& plan, const std::string& part, const std::string& weight,
               const std::string& name, trace::Trace& trace) {
  struct Found {
    std::map<int32_t, Weighted> parts;
    SimTime at;
  };
  std::map<std::pair<int64_t, int32_t>, double> weights;  // by iteration and rank
  for (const trace::Record& record : trace.records) {
    if (record.name == weight) weights[{record.iteration, record.rank}] = record.value;
  }
  std::map<int64_t, Found> found;
  for (const trace::Record& record : trace.records) {
    if (record.name != part) continue;
    Found& of = found[record.iteration];
    of.at = std::max(of.at, record.at);
    const auto own = weights.find({record.iteration, record.rank});
    of.parts[record.rank] = {
        record.value, own == weights.end() ? share_of_batch(plan, record.rank) : own->second};
  }
  for (const auto& [iteration, of] : found) {
    const int32_t rank = of.parts.begin()->first;
    trace.records.push_back({name, iteration, rank, of.at, *mean(of.parts)});
  }
}

std::optional<double> per_second(std::optional<double> count, SimDuration time) {
  if (!count) return std::nullopt;
  return *count / std::max(seconds(time).value, 1e-9);
}

}  // namespace

ProgressTracker::ProgressTracker(const plan::Plan& plan, int64_t first_iteration)
    : plan_(plan),
      steps_(plan.run.steps),
      tokens_(tokens_per_iteration(plan)),
      ranks_(plan.ranks.size()),
      steps_done_(first_iteration - 1) {
  CHECK(first_iteration >= 1, "a run begins with iteration {}", first_iteration);
}

void ProgressTracker::check_rank(int32_t rank) const {
  CHECK(rank >= 0 && static_cast<size_t>(rank) < ranks_, "a report of rank {} of {}", rank, ranks_);
}

Result<std::optional<Progress>> ProgressTracker::add(int32_t rank,
                                                     const stage::IterationReport& report) {
  check_rank(rank);
  if (report.iteration <= steps_done_) return std::nullopt;  // all ranks had reported it
  if (report.iteration > steps_)
    return failed(fmt::format("rank {} reported step {} of {}", rank, report.iteration, steps_));
  const auto [it, is_new] =
      open_.try_emplace(report.iteration, Open{.start = report.start, .end = report.end});
  Open& open = it->second;
  if (!open.reported.insert(rank).second) return std::nullopt;
  open.start = std::min(open.start, report.start);
  open.end = std::max(open.end, report.end);
  open.wan_wait += report.wan_wait;
  if (report.gradient_norm) open.gradient_norm = report.gradient_norm;
  open.update_skipped = open.update_skipped || report.update_skipped;
  if (report.loss) open.losses[rank] = *report.loss;
  if (report.batch) open.microbatches[rank] = report.batch->microbatches;
  if (report.weights_digest) open.digests[rank] = *report.weights_digest;
  if (open.reported.size() < ranks_) return std::nullopt;

  TRY(compare_replicas(report.iteration, open));
  TRY(check_batch(report.iteration, open));
  const Progress progress = complete(report.iteration, open);
  open_.erase(it);
  return progress;
}

std::vector<Progress> ProgressTracker::without_the_rest() {
  std::vector<Progress> out;
  for (const auto& [iteration, open] : std::exchange(open_, {})) {
    if (open.losses.size() == static_cast<size_t>(plan_.replicas()))
      out.push_back(complete(iteration, open));
  }
  return out;
}

Progress ProgressTracker::complete(int64_t iteration, const Open& open) {
  std::map<int32_t, Weighted> losses;
  for (const auto& [owner, each] : open.losses) {
    const auto own = open.microbatches.find(owner);
    const int64_t planned = plan_.microbatches_of(plan_.ranks[static_cast<size_t>(owner)].replica);
    losses[owner] = {each, real(own == open.microbatches.end() ? planned : own->second)};
  }
  const std::optional<double> loss = mean(losses);
  const SimDuration duration = duration_of(open);
  durations_.push_back(duration);
  usual_ = median();
  last_end_ = open.end;
  if (!first_loss_) first_loss_ = loss;
  final_loss_ = loss;
  steps_done_ = iteration;
  return {
      .step = iteration,
      .steps = steps_,
      .loss = loss,
      .evaluation_loss = evaluation_loss_,
      .evaluated_step = evaluated_step_,
      .gradient_norm = open.gradient_norm,
      .update_skipped = open.update_skipped,
      .tokens_per_s = per_second(tokens_, duration),
      .iteration = seconds(duration),
      .remaining = *usual_ * static_cast<double>(steps_ - iteration),
      .wan_wait_share = seconds(open.wan_wait).value /
                        (std::max(seconds(duration).value, 1e-9) * static_cast<double>(ranks_))};
}

Status ProgressTracker::compare_replicas(int64_t iteration, const Open& open) const {
  for (const auto& [rank, digest] : open.digests) {
    const int32_t first = plan_.rank_of(plan_.ranks[rank].stage, 0);
    const auto reference = open.digests.find(first);
    if (reference == open.digests.end() || reference->second == digest) continue;
    return failed(
        fmt::format("after iteration {} {} and {} hold different weights of stage {}: they should "
                    "be equal bit by bit",
                    iteration, place_of(plan_, first), place_of(plan_, rank),
                    plan_.ranks[rank].stage),
        "equal machines and libraries for all replicas; run.compare_replicas_every = 1 shows the "
        "iteration in which they part");
  }
  return {};
}

// At every position of the pipelines: each sample counts once.
Status ProgressTracker::check_batch(int64_t iteration, const Open& open) const {
  if (!plan_.batch_changes()) return {};
  if (open.microbatches.size() < ranks_) {
    return failed(
        fmt::format("of iteration {} {} of {} ranks say how many microbatches they computed",
                    iteration, open.microbatches.size(), ranks_),
        "the same version of Tombolo on all hosts");
  }
  const int64_t all = plan_.training.global_batch / plan_.training.micro_batch;
  std::map<int32_t, int64_t> sums;  // by position
  for (const auto& [rank, microbatches] : open.microbatches)
    sums[plan_.ranks[rank].stage] += std::clamp<int64_t>(microbatches, 0, all + 1);
  for (const auto& [position, sum] : sums) {
    if (sum == all) continue;
    return failed(fmt::format("in iteration {} the ranks of stage {} computed {} microbatches, and "
                              "the batch has {}",
                              iteration, position, sum, all),
                  "adaptive_batch = false; and please report this with the log of this run");
  }
  return {};
}

// Ranks report at different times; the loss shown is the mean of those that have reported.
void ProgressTracker::add_evaluation(int32_t rank, const stage::Evaluation& evaluation) {
  check_rank(rank);
  if (evaluation.step < evaluated_step_) return;
  if (evaluation.step > evaluated_step_) evaluations_.clear();
  evaluated_step_ = evaluation.step;
  evaluations_[rank] = evaluation;
  std::map<int32_t, Weighted> losses;
  for (const auto& [owner, each] : evaluations_) {
    losses[owner] = {each.loss, static_cast<double>(each.batches)};
  }
  evaluation_loss_ = mean(losses);
}

SimDuration ProgressTracker::duration_of(const Open& open) const {
  const bool overlaps = plan_.exchange_overlaps() && last_end_ && open.start < *last_end_;
  return open.end - (overlaps ? *last_end_ : open.start);
}

Seconds ProgressTracker::median() const {
  if (durations_.empty()) return 0_s;
  const auto first = durations_.begin() + trace::warmup_of(durations_.size(), false);
  // If lengths of iterations repeat in a cycle, the mean over whole cycles.
  const int64_t cycle = schedule::cycle_of(plan_);
  if (cycle > 1 && durations_.end() - first >= cycle) {
    const auto count = static_cast<std::ptrdiff_t>(
        trace::late_turns(static_cast<size_t>(durations_.end() - first), cycle));
    const auto sum = std::accumulate(durations_.end() - count, durations_.end(), SimDuration{});
    return seconds(sum) / real(int64_t{count});
  }
  return seconds(tombolo::median(std::vector<SimDuration>(first, durations_.end())));
}

RunSummary ProgressTracker::summary() const {
  RunSummary out{.steps = steps_done_,
                 .first_loss = first_loss_,
                 .final_loss = final_loss_,
                 .evaluation_loss = evaluation_loss_,
                 .iteration = median()};
  if (out.iteration.value > 0) out.tokens_per_s = per_second(tokens_, round_to_ns(out.iteration));
  return out;
}

RunSummary summary_of_done(const plan::Plan& plan, const trace::Trace& trace) {
  const auto last = [&](const std::string& name) -> std::optional<double> {
    for (const trace::Record& record : trace.records) {
      if (record.name == name && record.iteration == plan.run.steps) return record.value;
    }
    return std::nullopt;
  };
  RunSummary out{.steps = plan.run.steps,
                 .final_loss = last("loss"),
                 .evaluation_loss = last("evaluation_loss"),
                 .iteration = seconds(trace::median_iteration(trace::warm_iterations(trace)))};
  if (out.iteration.value > 0)
    out.tokens_per_s = per_second(tokens_per_iteration(plan), round_to_ns(out.iteration));
  return out;
}

trace::Trace merge_parts(const plan::Plan& plan, std::vector<trace::Trace> parts,
                         const std::string& command, const std::string& version) {
  CHECK(parts.size() == plan.ranks.size(), "{} parts of a Trace of {} ranks", parts.size(),
        plan.ranks.size());
  trace::Trace out;
  trace::Header& header = out.header;
  header.provenance = provenance_of(plan);
  header.name = plan.name;
  header.command = command;
  header.version = version;
  header.plan_digest = plan::plan_digest(plan);
  header.seed = plan.run.seed;
  header.byte_scale = plan.run.byte_scale;
  header.overlaps = plan.exchange_overlaps();
  header.cycle = schedule::cycle_of(plan);
  header.plan = plan::to_value(plan);
  for (const layout::Placement& placement : plan.ranks) {
    const cluster::Device& device = plan.device_of(placement.rank);
    header.ranks.push_back(
        {placement.rank, placement.stage, placement.datacenter, device.name, placement.replica});
  }
  for (trace::Trace& part : parts) {
    out.intervals.insert(out.intervals.end(), part.intervals.begin(), part.intervals.end());
    out.records.insert(out.records.end(), part.records.begin(), part.records.end());
  }
  if (plan.replicas() > 1) {
    add_means(plan, "replica_loss", "microbatches", "loss", out);
    add_means(plan, "replica_evaluation_loss", "replica_evaluation_batches", "evaluation_loss",
              out);
  }
  for (const trace::IterationTime& time : trace::iteration_times(out)) {
    const SimDuration span = time.end - time.start;
    const auto tokens = per_second(tokens_per_iteration(plan), span);
    if (!tokens || span.ns <= 0) continue;
    out.records.push_back({"tokens_per_s", time.iteration, 0, time.end, *tokens});
  }
  trace::normalize(out);
  return out;
}

std::optional<double> tokens_per_iteration(const plan::Plan& plan) {
  if (!plan.has_model()) return std::nullopt;
  return static_cast<double>(plan.training.global_batch) * static_cast<double>(plan.model.sequence);
}

trace::Provenance provenance_of(const plan::Plan& plan) {
  const bool emulated =
      std::any_of(plan.ranks.begin(), plan.ranks.end(), [&](const layout::Placement& placement) {
        return plan.device_of(placement.rank).kind == cluster::DeviceKind::kEmulated;
      });
  return emulated ? trace::Provenance::kEmulated : trace::Provenance::kMeasured;
}

}  // namespace tombolo::observe
