#include "spec/plan/plan_file.h"

#include <algorithm>

#include "base/field_catalog.h"
#include "base/fields.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/json.h"

namespace tombolo::plan {

template <class Archive>
void describe(Archive& a, StageCostIn& here) {
  a.required("datacenter", here.datacenter, "where");
  a.required("cost", here.cost, "there");
}

template <class Archive>
void describe(Archive& a, Stage& stage) {
  a.required("slice", stage.slice, "layers that the stage holds");
  a.required("cost", stage.cost, "durations");
  if (Archive::kReads || !stage.elsewhere.empty())
    a.optional("elsewhere", stage.elsewhere, "durations of replicas on other devices");
  a.required("state", stage.state, "memory of weights, gradients and optimizer state");
  a.required("activations", stage.activations, "memory of one microbatch");
  a.optional("workspace", stage.workspace, "memory of temporary values");
  a.optional("gradients", stage.gradients, "bytes that replicas sum");
  a.check(stage.gradients.value >= 0 && stage.gradients.value < 9e18, "gradients",
          "must not be negative, nor beyond 9 EB");
}

// Each of a list, to and from the text that stands for it in the file.
template <class Archive, class T>
void describe_texts(Archive& a, const char* key, std::vector<T>& list,
                    std::string (*to_text)(const T&), Result<T> (*parse)(std::string_view),
                    const char* about) {
  std::vector<std::string> texts;
  if (!Archive::kReads) {
    for (const T& one : list) texts.push_back(to_text(one));
  }
  a.optional(key, texts, about);
  if (!Archive::kReads) return;
  list.clear();
  for (const std::string& text : texts) {
    Result<T> one = parse(text);
    if (!one) {
      return a.refuse(key, fmt::format("[{}]: {}", list.size(), one.error().message),
                      one.error().hint);
    }
    list.push_back(*std::move(one));
  }
}

template <class Archive>
void describe(Archive& a, GivenSchedule& given) {
  a.required("name", given.name, "what the schedule is called");
  describe_texts(a, "ranks", given.ranks, order_text, parse_order,
                 "actions of each rank, in order");
  describe_texts(a, "links", given.links, link_text, parse_link,
                 "transfers of each link, in order");
  const bool any = std::any_of(given.pairs.begin(), given.pairs.end(),
                               [](const auto& of_rank) { return !of_rank.empty(); });
  if (Archive::kReads || any) {
    describe_texts(a, "pairs", given.pairs, pairs_text, parse_pairs,
                   "passes of each rank that are co-executed");
  }
  if (Archive::kReads && std::all_of(given.pairs.begin(), given.pairs.end(),
                                     [](const auto& of_rank) { return of_rank.empty(); })) {
    given.pairs.clear();
  }
  a.optional("release", given.release, "when the pipelines of a DP-cell may begin");
}

template <class Archive>
void describe(Archive& a, Plan& plan) {
  int version = kPlanVersion;
  a.required("tombolo_plan", version, "version of the format");
  a.check(version == kPlanVersion, "tombolo_plan",
          fmt::format("this program reads version {}", kPlanVersion));
  a.optional("name", plan.name, "what answers and reports call it");
  if (Archive::kReads || plan.has_model())
    a.optional("model", plan.model, "resolved, field by field");
  a.required("cluster", plan.cluster, "resolved");
  a.required("training", plan.training, "as in a job");
  a.required("optimizer", plan.optimizer, "as in a job");
  a.required("parallelism", plan.parallelism, "as in a job, nothing open");
  a.required("cost_source", plan.cost_source,
             "where the durations are from: stage-times, profile, or a law");
  a.optional("constants", plan.constants, "whose constants the law took");
  a.required("stages", plan.stages, "what each stage holds, takes and needs");
  if (Archive::kReads || !plan.pairs.empty())
    a.optional("pairs", plan.pairs, "durations of co-executed passes");
  a.required("ranks", plan.ranks, "where each rank is");
  a.required("boundary", plan.boundary, "bytes of one microbatch between two stages");
  a.optional("wan_transfer", plan.wan_transfer, "of one microbatch, where [stage_times] say it");
  if (Archive::kReads) plan.wan_latency.reset();
  a.optional("wan_latency", plan.wan_latency, "of a transfer, where [stage_times] say it");
  a.optional("in_flight", plan.in_flight,
             "microbatches that a device has memory for; left out: any number");
  a.optional("given", plan.given, "a schedule action by action; left out: built by its name");
  a.optional("measured_links", plan.measured_links, "of a hardware file");
  a.optional("exchange", plan.exchange, "as in a job");
  a.optional("data", plan.data, "as in a job");
  a.required("run", plan.run, "as in a job");
  a.optional("checkpoint", plan.checkpoint, "as in a job");
  a.optional("prefill", plan.prefill, "as in a job, its model resolved");
}

Value to_value(const Plan& plan) { return write_fields(plan); }

std::string to_json_text(const Plan& plan) { return to_json(to_value(plan)) + "\n"; }

std::string plan_digest(const Plan& plan) { return digest(to_json_text(plan)); }

Result<Plan> from_value(const Value& value, const std::string& name) {
  Plan plan = TRY(read_fields<Plan>(value, name));
  // Of a Plan without a model, earlier versions wrote one of a single number a layer.
  if (plan.boundary.value == 0) plan.model = {};
  TRY(during(validate(plan), "checking the Plan in " + name));
  return plan;
}

Result<Plan> parse_plan(std::string_view text, const std::string& name) {
  const Value value = TRY(parse_json(text, name));
  return from_value(value, name);
}

Status write_plan(const std::string& path, const Plan& plan) {
  return write_file(path, to_json_text(plan));
}

Result<Plan> read_plan(const std::string& path) {
  const std::string text = TRY(read_file(path));
  return parse_plan(text, path);
}

std::vector<KeyEntry> plan_keys() { return keys_of<Plan>(); }

}  // namespace tombolo::plan
