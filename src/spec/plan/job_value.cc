#include "spec/plan/job_value.h"

#include <algorithm>
#include <functional>

#include "base/fields.h"
#include "base/file.h"
#include "base/json.h"
#include "base/toml.h"
#include "spec/plan/job.h"
#include "spec/plan/plan_file.h"

namespace tombolo::plan {

Value per_stage_value(const std::vector<Seconds>& times) {
  CHECK(!times.empty(), "times of no stage");
  const auto all_equal = std::adjacent_find(times.begin(), times.end(), std::not_equal_to<>());
  if (all_equal == times.end()) return Value(format(times.front()));
  Value::Array list;
  for (const Seconds time : times) list.emplace_back(format(time));
  return Value(std::move(list));
}

namespace {

// Whether [stage_times].pair and pair_forward say all pairs: each stage with the one as far from
// the other end, and no backward that ends before its forward.
bool says_pairs(const Plan& plan) {
  if (plan.pairs.empty()) return true;
  if (plan.pairs.size() != plan.stages.size()) return false;
  const auto last = static_cast<int32_t>(plan.stages.size()) - 1;
  for (int32_t s = 0; s <= last; ++s) {
    const PairCost& pair = plan.pairs[static_cast<size_t>(s)];
    if (pair.forward != s || pair.backward != last - s || pair.forward_end > pair.backward_end) {
      return false;
    }
  }
  return true;
}

// The stages' times, as a person would have written them.
Value stage_times_value(const Plan& plan) {
  std::vector<Seconds> forward, backward, recompute, weights;
  bool split = true;
  for (const Stage& stage : plan.stages) {
    forward.push_back(stage.cost.forward);
    backward.push_back(stage.cost.backward);
    recompute.push_back(stage.cost.recompute);
    split = split && stage.cost.backward_weight.has_value();
    weights.push_back(stage.cost.backward_weight.value_or(0_s));
  }
  // The last stage never recomputes, whatever a job says of it.
  if (recompute.size() > 1) recompute.back() = recompute[recompute.size() - 2];
  Value::Table times{{"forward", per_stage_value(forward)},
                     {"backward", per_stage_value(backward)}};
  if (split) times.emplace_back("backward_weight", per_stage_value(weights));
  if (recompute.front() > 0_s || recompute != std::vector(recompute.size(), 0_s)) {
    times.emplace_back("recompute", per_stage_value(recompute));
  }
  if (says_pairs(plan) && !plan.pairs.empty()) {
    std::vector<Seconds> pair, pair_forward;
    for (const PairCost& each : plan.pairs) {
      pair.push_back(each.backward_end);
      pair_forward.push_back(each.forward_end);
    }
    times.emplace_back("pair", per_stage_value(pair));
    if (pair_forward != pair) times.emplace_back("pair_forward", per_stage_value(pair_forward));
  }
  const Seconds reduce = plan.stages.front().cost.reduce;
  if (reduce > 0_s) times.emplace_back("reduce", format(reduce));
  if (plan.wan_transfer) {
    times.emplace_back("transfer", format(*plan.wan_transfer));
    if (plan.wan_latency) times.emplace_back("latency", format(*plan.wan_latency));
  }
  if (plan.in_flight) times.emplace_back("in_flight", *plan.in_flight);
  return Value(std::move(times));
}

// What stage_times_value() has no words for.
bool loses_times(const Plan& plan) {
  return std::any_of(plan.stages.begin(), plan.stages.end(), [&](const Stage& stage) {
    return stage.cost.update > 0_s || stage.cost.reduce != plan.stages.front().cost.reduce;
  });
}

// A job says where stages lie and no more: devices follow [parallelism].order. Plans that Tombolo
// writes are laid out so; of another one, figures that depend on places would be wrong.
Status check_places(const Plan& plan, const Value& value, const std::string& file) {
  const Job job = TRY(job_from_value(value, file));
  const std::vector<layout::Placement> ranks = TRY(
      during(layout::place(job.parallelism, job.cluster, file), "placing the ranks of " + file));
  CHECK(ranks.size() == plan.ranks.size(), "{}: {} ranks as a job, {} in the Plan", file,
        ranks.size(), plan.ranks.size());
  for (size_t r = 0; r < ranks.size(); ++r) {
    const layout::Placement &wanted = ranks[r], &here = plan.ranks[r];
    if (wanted == here) continue;
    const auto seat = [](const layout::Placement& at) {
      return fmt::format("{} device(s) from node {}, device {} in {} on", at.shards, at.node,
                         at.device, at.datacenter);
    };
    return unusable(
        fmt::format("{}: ranks[{}] has {}; a job with this parallelism would have it on {}", file,
                    r, seat(here), seat(wanted)),
        "tombolo simulate, which takes ranks where they are, or the job this Plan was made from");
  }
  return {};
}

}  // namespace

bool is_plan(std::string_view text) {
  text = without_byte_order_mark(text);
  const size_t first = text.find_first_not_of(" \t\r\n");
  return first != std::string_view::npos && text[first] == '{';
}

Result<JobValue> to_job_value(const Plan& plan, const std::string& file) {
  CHECK(!plan.stages.empty() && !plan.ranks.empty(), "{}: a Plan without stages or ranks", file);
  Value::Table job;
  if (!plan.name.empty()) job.emplace_back("name", plan.name);
  if (plan.has_model()) job.emplace_back("model", write_fields(plan.model));
  cluster::Cluster cluster = plan.cluster;
  for (cluster::WanLink& link : cluster.wan) {
    if (!link.rate_trace.empty()) link.rate_trace = path_seen_from(file, link.rate_trace);
  }
  job.emplace_back("cluster", write_fields(cluster));
  job.emplace_back("training", write_fields(plan.training));
  job.emplace_back("optimizer", write_fields(plan.optimizer));
  layout::Parallelism parallelism = plan.parallelism;
  if (plan.cluster.datacenters.size() > 1) {
    layout::say_datacenters(plan.ranks, parallelism);
  }
  job.emplace_back("parallelism", write_fields(parallelism));
  const bool told = plan.cost_source == CostSource::kStageTimes ||
                    plan.cost_source == CostSource::kProfile || !plan.has_model();
  if (told) job.emplace_back("stage_times", stage_times_value(plan));
  append_run_tables(job, plan, file);
  JobValue out{.value = Value(std::move(job)), .from_plan = true};
  if (!told) out.constants = plan.constants;
  TRY(check_places(plan, out.value, file));
  if (told && loses_times(plan)) {
    out.notes.push_back(
        "left out: steps of the optimizer, and gradient all-reduces that differ from stage to "
        "stage, "
        "which "
        "[stage_times] cannot say; tombolo simulate counts them");
  }
  if (plan.given) {
    out.given_schedule = true;
    out.notes.push_back(
        fmt::format("left out: the schedule that was found for this Plan (given = \"{}\"); counted "
                    "as schedule = \"{}\"",
                    plan.given->name, to_name(plan.parallelism.schedule)));
  }
  if (!plan.pairs.empty() && !(told && says_pairs(plan))) {
    out.notes.push_back(
        "left out: how long co-executed passes take (pairs); counted one after the other");
  }
  const auto is_ordered = [](const PairCost& pair) { return !pair.order.empty(); };
  if (told && says_pairs(plan) && std::ranges::any_of(plan.pairs, is_ordered)) {
    out.notes.push_back("left out: the order of operators in co-executed passes (pairs)");
  }
  if (!plan.measured_links.empty()) {
    out.notes.push_back("left out: measured_links; WAN links are those that cluster.wan describes");
  }
  return out;
}

Result<JobValue> parse_job_value(std::string_view text, const std::string& file) {
  if (!is_plan(text)) return JobValue{.value = TRY(parse_toml(text, file))};
  const Value json = TRY(parse_json(text, file));
  if (!json.find("tombolo_plan")) {
    return unusable(fmt::format("{}: this is JSON, and no Plan: it has no tombolo_plan", file),
                    "a job file (TOML), which names a config.json as [model] config = "
                    "\"config.json\"; or the plan.json of tombolo plan --out");
  }
  return to_job_value(TRY(from_value(json, file)), file);
}

Result<JobValue> read_job_value(const std::string& path) {
  const std::string text = TRY(read_file(path, int64_t{1} << 26));
  return parse_job_value(text, path);
}

namespace {

Value ends_of(const Value& parallelism) {
  Value::Table ends;
  for (const char* key : {"first_stage_in", "last_stage_in"}) {
    if (const Value* names = parallelism.find(key)) ends.emplace_back(key, *names);
  }
  return Value(std::move(ends));
}

}  // namespace

Value setting_of(JobValue job) {
  if (!job.from_plan || !job.value.find("model")) return std::move(job.value);
  Value::Table kept;
  for (auto& [key, value] : *job.value.get<Value::Table>()) {
    if (key == "stage_times") continue;
    if (key == "parallelism") value = ends_of(value);  // a decision, but for where data is
    if (key != "parallelism" || !value.get<Value::Table>()->empty())
      kept.emplace_back(key, std::move(value));
  }
  return Value(std::move(kept));
}

}  // namespace tombolo::plan
