#include <algorithm>
#include <chrono>

#include "base/text_table.h"
#include "predict/cost/price_plan.h"
#include "spec/plan/job.h"
#include "spec/schedule/schedule.h"
#include "ui/command/answer.h"
#include "ui/command/stages.h"
#include "ui/decide_commands/decide_commands.h"
#include "ui/decide_commands/decision_pages.h"
#include "ui/report/answer_values.h"

namespace tombolo::decide_commands {
namespace {

using geo::MixedPlan;
using geo::MixedResult;
using geo::MixedStage;

std::string choice_text(const MixedPlan& plan) {
  return fmt::format("data {}, microbatch {} ({} per pipeline), recompute {}, zero {}", plan.data,
                     plan.micro_batch, plan.microbatches, to_name(plan.recompute), plan.zero);
}

void print_best(std::ostream& out, const MixedPlan& best) {
  out << fmt::format("predicted iteration: {}{}, {} tokens/s, MFU {:.1f} %\n",
                     brief(best.iteration()), time_source(best.simulated, best.time.iteration),
                     report::figure_of(best.tokens_per_second), 100 * best.mfu);
  out << fmt::format("  {}, {} stages, {} devices\n", choice_text(best), best.stages.size(),
                     best.devices);
  out << "  " << command::time_text(best.time) << "\n";
  if (best.cost()) {
    out << fmt::format("  {} an iteration, of that {} for WAN traffic\n", brief(*best.cost()),
                       brief(best.egress));
  }
  command::print_stages(out, best.stages);
}

void print_text(std::ostream& out, const plan::Job& job, const MixedResult& found,
                const MixedPlanOptions& options, double wall) {
  out << fmt::format("{}: {} on up to {} devices in {} datacenters, objective {}\n", job.name,
                     job.model->name.empty() ? "model" : job.model->name, job.cluster.devices(),
                     job.cluster.datacenters.size(), to_name(options.search.objective));
  print_best(out, found.top.front());
  TextTable table(
      {"", "iteration", "MFU", "cost", "devices", text_column("stages along the pipeline")});
  for (size_t i = 0; i < found.top.size(); ++i) {
    const MixedPlan& plan = found.top[i];
    table.row({fmt::format("{}.", i + 1), brief(plan.iteration()),
               fmt::format("{:.1f} %", 100 * plan.mfu), plan.cost() ? brief(*plan.cost()) : "-",
               fmt::format("{}", plan.devices),
               fmt::format("{}; {}", command::way_text(plan.stages), choice_text(plan))});
  }
  out << table.text();
  const std::vector<geo::MixedWhyNot> chosen = geo::short_list(found.why_not);
  if (!chosen.empty()) out << "why not\n";
  TextTable refused({text_column(), text_column()});
  for (const geo::MixedWhyNot& why : chosen) refused.row({std::string(why.family()), why.reason});
  out << refused.text();
  if (chosen.size() < found.why_not.size()) {
    out << fmt::format("  ... {} more with --json\n", found.why_not.size() - chosen.size());
  }
  out << fmt::format("{} settings in {:.2f} s, {} cut by a bound; layers split {} times\n",
                     found.settings, wall, found.settings_cut, found.evaluated);
  if (found.finals.of > 0) out << "  " << search::finals_text(found.finals) << "\n";
  if (found.stopped) out << "  " << stopped_text(found.gap, options.search.objective) << "\n";
  for (const std::string& note : found.notes) out << "  note: " << note << "\n";
}

Value::Table parallelism_json(const MixedPlan& plan) {
  Value::Array layers, where, tensors;
  bool equal = true;
  for (const MixedStage& s : plan.stages) {
    layers.emplace_back(s.layers);
    where.emplace_back(s.datacenter);
    tensors.emplace_back(s.tensor);
    equal = equal && s.tensor == plan.stages.front().tensor;
  }
  Value::Table table;
  if (equal) table.emplace_back("tensor", plan.stages.front().tensor);
  table.emplace_back("tensor_per_stage", std::move(tensors));
  table.emplace_back("pipeline", static_cast<int64_t>(plan.stages.size()));
  table.emplace_back("data", plan.data);
  table.emplace_back("context", int64_t{1});
  table.emplace_back("expert", int64_t{1});
  table.emplace_back("virtual_stages", int64_t{1});
  table.emplace_back("zero", plan.zero);
  table.emplace_back("sequence_parallel", plan.sequence_parallel);
  table.emplace_back("schedule", std::string(to_name(layout::default_schedule(1))));
  table.emplace_back("layers_per_stage", std::move(layers));
  table.emplace_back("datacenter_per_stage", std::move(where));
  table.emplace_back("micro_batch", plan.micro_batch);
  table.emplace_back("micro_batches", plan.microbatches);
  table.emplace_back("recompute", std::string(to_name(plan.recompute)));
  return table;
}

Value::Table plan_json(const plan::Job& job, const MixedPlan& plan) {
  Bytes most;
  for (const MixedStage& s : plan.stages) most = std::max(most, s.memory.total());
  return {{"parallelism", parallelism_json(plan)},
          {"iteration_s", plan.iteration().value},
          {"simulated_s", plan.simulated ? Value(plan.simulated->value) : Value()},
          {"closed_form_s", plan.time.iteration.value},
          {"parts", command::parts_json(plan.time)},
          {"throughput", plan.tokens_per_second},
          {"mfu", plan.mfu},
          {"memory_bytes", most.value},
          {"cost_usd", plan.cost() ? Value(plan.cost()->value) : Value()},
          {"egress_usd", command::egress_json(job.cluster, plan.egress)},
          {"devices", plan.devices},
          {"placement", command::stages_json(plan.stages)}};
}

Value::Table to_json(const plan::Job& job, const MixedResult& found,
                     const MixedPlanOptions& options, double wall) {
  Value::Array top, why_not, notes;
  for (const MixedPlan& plan : found.top) top.push_back(plan_json(job, plan));
  for (const geo::MixedWhyNot& why : found.why_not) {
    why_not.push_back(Value::Table{
        {"family", why.family()}, {"axis", why.axis}, {"value", why.value}, {"text", why.reason}});
  }
  for (const std::string& note : found.notes) notes.push_back(note);
  return {{"provenance", "predicted"},
          {"law", "tombolo"},
          {"objective", std::string(to_name(options.search.objective))},
          {"best", top.front()},
          {"finalists", finals_json(found.finals)},
          {"top", top},
          {"why_not", why_not},
          {"settings", found.settings},
          {"settings_cut", found.settings_cut},
          {"evaluated", found.evaluated},
          {"feasible", found.feasible},
          {"stopped", found.stopped},
          {"gap", found.gap},
          {"notes", notes},
          {"wall_s", wall}};
}

std::string comment_of(const MixedPlan& best, const MixedPlanOptions& options) {
  return fmt::format("tombolo plan {} --objective {}\n{}, predicted iteration {}", options.job,
                     to_name(options.search.objective), choice_text(best), brief(best.iteration()));
}

}  // namespace

Status plan_mixed(const plan::OpenJob& open, const MixedPlanOptions& options, std::ostream& out) {
  const auto begin = std::chrono::steady_clock::now();
  std::optional<AtomicFile> page = TRY(open_page(options.report, options.out));
  MixedResult found = TRY(geo::search_mixed(open, options.search));
  found.notes.emplace_back(
      "whole pipelines in each datacenter, with gradients across the WAN, are compared by "
      "--across");
  const std::chrono::duration<double> wall = std::chrono::steady_clock::now() - begin;
  const Value::Table answer = to_json(open.job, found, options, wall.count());
  const MixedPlan& best = found.top.front();
  if (page)
    TRY(page->write(plan_page(answer, open.job, geo::with_plan(open.job, best), options.command)));
  std::string written;
  if (!options.out.empty()) {
    written =
        TRY(write_layout(geo::with_plan(open.job, best), options.out, comment_of(best, options)));
  }
  if (page) TRY(page->commit());
  if (options.json) {
    command::print_json(out, answer);
    return {};
  }
  print_text(out, open.job, found, options, wall.count());
  if (!written.empty()) out << written << "\n";
  if (page) out << "wrote " << options.report << "\n";
  return {};
}

}  // namespace tombolo::decide_commands
