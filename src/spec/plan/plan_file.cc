#include "spec/plan/plan_file.h"

#include <algorithm>

#include "base/fields.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/json.h"

namespace tombolo::plan {

template <class Archive>
void describe(Archive& a, StageCostIn& here) {
  a.required("datacenter", here.datacenter);
  a.required("cost", here.cost);
}

template <class Archive>
void describe(Archive& a, Stage& stage) {
  a.required("slice", stage.slice);
  a.required("cost", stage.cost);
  if (Archive::kReads || !stage.elsewhere.empty()) a.optional("elsewhere", stage.elsewhere);
  a.required("state", stage.state);
  a.required("activations", stage.activations);
  a.optional("workspace", stage.workspace);
  a.optional("gradients", stage.gradients);
  a.check(stage.gradients.value >= 0 && stage.gradients.value < 9e18, "gradients",
          "must not be negative, nor beyond 9 EB");
}

// Each of a list, to and from the text that stands for it in the file.
template <class Archive, class T>
void describe_texts(Archive& a, const char* key, std::vector<T>& list,
                    std::string (*to_text)(const T&), Result<T> (*parse)(std::string_view)) {
  std::vector<std::string> texts;
  if (!Archive::kReads) {
    for (const T& one : list) texts.push_back(to_text(one));
  }
  a.optional(key, texts);
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
  a.required("name", given.name);
  describe_texts(a, "ranks", given.ranks, order_text, parse_order);
  describe_texts(a, "links", given.links, link_text, parse_link);
  const bool any = std::any_of(given.pairs.begin(), given.pairs.end(),
                               [](const auto& of_rank) { return !of_rank.empty(); });
  if (Archive::kReads || any) {
    describe_texts(a, "pairs", given.pairs, pairs_text, parse_pairs);
  }
  if (Archive::kReads && std::all_of(given.pairs.begin(), given.pairs.end(),
                                     [](const auto& of_rank) { return of_rank.empty(); })) {
    given.pairs.clear();
  }
  a.optional("release", given.release);
}

template <class Archive>
void describe(Archive& a, Plan& plan) {
  int version = kPlanVersion;
  a.required("tombolo_plan", version);
  a.check(version == kPlanVersion, "tombolo_plan",
          fmt::format("this program reads version {}", kPlanVersion));
  a.optional("name", plan.name);
  if (Archive::kReads || plan.has_model()) a.optional("model", plan.model);
  a.required("cluster", plan.cluster);
  a.required("training", plan.training);
  a.required("optimizer", plan.optimizer);
  a.required("parallelism", plan.parallelism);
  a.required("cost_source", plan.cost_source);
  a.optional("constants", plan.constants);
  a.required("stages", plan.stages);
  if (Archive::kReads || !plan.pairs.empty()) a.optional("pairs", plan.pairs);
  a.required("ranks", plan.ranks);
  a.required("boundary", plan.boundary);
  a.optional("wan_transfer", plan.wan_transfer);
  if (Archive::kReads) plan.wan_latency.reset();
  a.optional("wan_latency", plan.wan_latency);
  a.optional("in_flight", plan.in_flight);
  a.optional("given", plan.given);
  a.optional("measured_links", plan.measured_links);
  a.optional("exchange", plan.exchange);
  a.optional("data", plan.data);
  a.required("run", plan.run);
  a.optional("checkpoint", plan.checkpoint);
  a.optional("prefill", plan.prefill);
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

}  // namespace tombolo::plan
