#include <algorithm>
#include <chrono>

#include "base/file.h"
#include "predict/cost/price_plan.h"
#include "spec/plan/job.h"
#include "spec/plan/plan_file.h"
#include "spec/schedule/schedule.h"
#include "ui/command/answer.h"
#include "ui/decide_commands/decide_commands.h"

namespace tombolo::decide_commands {
namespace {

using geo::MixedPlan;
using geo::MixedResult;
using geo::MixedStage;

// Neighbouring stages in one datacenter.
struct Group {
  const MixedStage* first = nullptr;
  const MixedStage* last = nullptr;
  std::vector<int64_t> layers;
  const MixedStage* fullest = nullptr;

  int64_t stages() const { return static_cast<int64_t>(layers.size()); }
};

std::vector<Group> groups_of(const MixedPlan& plan) {
  std::vector<Group> groups;
  for (const MixedStage& stage : plan.stages) {
    if (groups.empty() || groups.back().first->datacenter != stage.datacenter) {
      groups.push_back({.first = &stage, .layers = {}, .fullest = &stage});
    }
    Group& group = groups.back();
    group.last = &stage;
    group.layers.push_back(stage.layers);
    if (stage.memory.total() > group.fullest->memory.total()) group.fullest = &stage;
  }
  return groups;
}

// "5 x9, 4": runs of equal numbers.
std::string layers_text(const std::vector<int64_t>& layers) {
  std::string text;
  for (size_t i = 0; i < layers.size();) {
    size_t end = i;
    while (end < layers.size() && layers[end] == layers[i]) ++end;
    text += fmt::format("{}{}", text.empty() ? "" : ", ", layers[i]);
    if (end - i > 1) text += fmt::format(" x{}", end - i);
    i = end;
  }
  return text;
}

std::string choice_text(const MixedPlan& plan) {
  return fmt::format("data {}, micro-batch {} ({} per pipeline), recompute {}, zero {}", plan.data,
                     plan.micro_batch, plan.micro_batches, to_name(plan.recompute), plan.zero);
}

std::string way_text(const MixedPlan& plan) {
  std::string text;
  for (const Group& group : groups_of(plan)) {
    text +=
        fmt::format("{}{} {}", text.empty() ? "" : ", ", group.first->datacenter, group.stages());
  }
  return text;
}

void print_best(std::ostream& out, const MixedPlan& best) {
  out << fmt::format("predicted iteration: {}, {:.4g} tokens/s, MFU {:.1f} %\n",
                     brief(best.iteration), best.tokens_per_second, 100 * best.mfu);
  out << fmt::format("  {}, {} stages, {} devices\n", choice_text(best), best.stages.size(),
                     best.devices);
  out << fmt::format(
      "  {} round trip, then {} a micro-batch, then {} for gradients and optimizer; "
      "played action by action {}\n",
      brief(best.round_trip), brief(best.period), brief(best.end), brief(best.played));
  if (best.cost().value > 0) {
    out << fmt::format("  {} an iteration, of that {} for WAN traffic\n", brief(best.cost()),
                       brief(best.egress));
  }
  out << fmt::format("  {:<10}{:<14}{:<12}{:>7}  {:<18}{:>10}{:>10}  {}\n", "stages", "datacenter",
                     "device", "tensor", "layers", "forward", "backward", "fullest stage");
  for (const Group& group : groups_of(best)) {
    const std::string stages = group.stages() == 1
                                   ? fmt::format("{}", group.first->stage)
                                   : fmt::format("{}-{}", group.first->stage, group.last->stage);
    out << fmt::format("  {:<10}{:<14}{:<12}{:>7}  {:<18}{:>10}{:>10}  {} of {}\n", stages,
                       group.first->datacenter, group.first->device, group.first->tensor,
                       layers_text(group.layers), brief(group.first->forward),
                       brief(group.first->backward), brief(group.fullest->memory.total()),
                       brief(group.fullest->memory_of_device));
  }
}

void print_text(std::ostream& out, const plan::Job& job, const MixedResult& found,
                const MixedPlanOptions& options, double wall) {
  out << fmt::format("{}: {} on up to {} devices in {} datacenters, objective {}\n", job.name,
                     job.model->name.empty() ? "model" : job.model->name, job.cluster.devices(),
                     job.cluster.datacenters.size(), to_name(options.search.objective));
  print_best(out, found.top.front());
  out << fmt::format("  {:>3}{:>11}{:>8}{:>10}{:>9}  {}\n", "", "iteration", "MFU", "cost",
                     "devices", "stages along the pipeline");
  for (size_t i = 0; i < found.top.size(); ++i) {
    const MixedPlan& plan = found.top[i];
    out << fmt::format("  {:>2}.{:>11}{:>6.1f} %{:>10}{:>9}  {}; {}\n", i + 1,
                       brief(plan.iteration), 100 * plan.mfu,
                       plan.cost().value > 0 ? brief(plan.cost()) : "-", plan.devices,
                       way_text(plan), choice_text(plan));
  }
  const std::vector<geo::MixedWhyNot> chosen = geo::short_list(found.why_not);
  if (!chosen.empty()) out << "why not\n";
  for (const geo::MixedWhyNot& why : chosen) {
    out << fmt::format("  {:<26}{}\n", why.family(), why.reason);
  }
  if (chosen.size() < found.why_not.size()) {
    out << fmt::format("  ... {} more with --json\n", found.why_not.size() - chosen.size());
  }
  out << fmt::format("{} settings in {:.2f} s, {} cut by a bound; layers split {} times\n",
                     found.settings, wall, found.settings_cut, found.evaluated);
  for (const std::string& note : found.notes) out << "  note: " << note << "\n";
}

Value::Table stage_json(const MixedStage& s, int64_t data) {
  return {{"stage", s.stage},
          {"datacenter", s.datacenter},
          {"device", s.device},
          {"devices", s.tensor * data},
          {"tensor", s.tensor},
          {"first_layer", s.first_layer},
          {"layers", s.layers},
          {"forward_s", s.forward.value},
          {"backward_s", s.backward.value},
          {"memory_bytes", s.memory.total().value},
          {"device_bytes", s.memory_of_device.value}};
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
  table.emplace_back("schedule", "1f1b");
  table.emplace_back("layers_per_stage", std::move(layers));
  table.emplace_back("datacenter_per_stage", std::move(where));
  table.emplace_back("micro_batch", plan.micro_batch);
  table.emplace_back("micro_batches", plan.micro_batches);
  table.emplace_back("recompute", std::string(to_name(plan.recompute)));
  return table;
}

Value::Table plan_json(const MixedPlan& plan) {
  Value::Array placement;
  Bytes most;
  for (const MixedStage& s : plan.stages) {
    most = std::max(most, s.memory.total());
    placement.emplace_back(stage_json(s, plan.data));
  }
  return {{"parallelism", parallelism_json(plan)},
          {"iteration_s", plan.iteration.value},
          {"parts", Value::Table{{"round_trip_s", plan.round_trip.value},
                                 {"period_s", plan.period.value},
                                 {"end_s", plan.end.value}}},
          {"played_s", plan.played.value},
          {"throughput", plan.tokens_per_second},
          {"mfu", plan.mfu},
          {"memory_bytes", most.value},
          {"cost_usd", plan.cost().value},
          {"egress_usd", plan.egress.value},
          {"devices", plan.devices},
          {"placement", placement}};
}

Value::Table to_json(const MixedResult& found, const MixedPlanOptions& options, double wall) {
  Value::Array top, why_not, notes;
  for (const MixedPlan& plan : found.top) top.push_back(plan_json(plan));
  for (const geo::MixedWhyNot& why : found.why_not) {
    why_not.push_back(Value::Table{
        {"family", why.family()}, {"axis", why.axis}, {"value", why.value}, {"text", why.reason}});
  }
  for (const std::string& note : found.notes) notes.push_back(note);
  return {{"provenance", "predicted"},
          {"law", "tombolo"},
          {"objective", std::string(to_name(options.search.objective))},
          {"best", top.front()},
          {"top", top},
          {"why_not", why_not},
          {"settings", found.settings},
          {"settings_cut", found.settings_cut},
          {"evaluated", found.evaluated},
          {"feasible", found.feasible},
          {"notes", notes},
          {"wall_s", wall}};
}

// Says what was written, for people.
Result<std::string> write_artifact(const plan::Job& job, const MixedPlan& best,
                                   const MixedPlanOptions& options) {
  const std::string& path = options.out;
  const std::string doing = "writing " + path;
  const plan::Job exact = TRY(during(geo::with_plan(job, best), doing));
  if (path.ends_with(".json")) {
    const plan::Plan plan = TRY(during(cost::make_plan(exact), doing));
    const schedule::Schedule schedule = TRY(during(schedule::build(plan), doing));
    TRY(during(schedule::check_memory(plan, schedule), doing));
    TRY(write_file(path, plan::to_json_text(plan)));
    return fmt::format("wrote {}: a Plan, for tombolo simulate and train", path);
  }
  if (!path.ends_with(".toml")) {
    return unusable(fmt::format("--out {}: neither .json nor .toml", path),
                    "plan.json for a Plan, job.toml for a job with explicit parallelism");
  }
  const std::string comment =
      fmt::format("tombolo plan {} --objective {}\n{}, predicted iteration {}", options.job,
                  to_name(options.search.objective), choice_text(best), brief(best.iteration));
  TRY(write_file(path, plan::to_toml_text(exact, path, comment)));
  return fmt::format("wrote {}: a job with this plan", path);
}

}  // namespace

Status plan_mixed(const plan::OpenJob& open, const MixedPlanOptions& options, std::ostream& out) {
  const auto begin = std::chrono::steady_clock::now();
  const MixedResult found = TRY(geo::search_mixed(open, options.search));
  const std::chrono::duration<double> wall = std::chrono::steady_clock::now() - begin;
  std::string written;
  if (!options.out.empty()) written = TRY(write_artifact(open.job, found.top.front(), options));
  if (options.json) {
    command::print_json(out, to_json(found, options, wall.count()));
    return {};
  }
  print_text(out, open.job, found, options, wall.count());
  if (!written.empty()) out << written << "\n";
  return {};
}

}  // namespace tombolo::decide_commands
