#include "spec/trace/compare.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "base/check.h"
#include "base/hash.h"
#include "base/json.h"

namespace tombolo::trace {
namespace {

struct Durations {
  int64_t count = 0;
  double sum = 0;  // ns
};
using Sides = std::array<Durations, 2>;                                 // predicted, measured
using Table = std::map<std::pair<int32_t, action::ActionKind>, Sides>;  // by (stage or -1, kind)

// An action in parts (a pass that stops for groups of gradients, an update group by group) counts once;
// the messages of a sum are counted with the sum.
void collect(const Trace& trace, int64_t first_iteration, size_t side, Table& table) {
  std::set<std::tuple<int64_t, int32_t, action::Action>> computed;
  for (const Interval& interval : trace.intervals) {
    if (interval.iteration < first_iteration) continue;
    const bool sum = interval.action.kind == action::ActionKind::kReduceGradients;
    if (sum && interval.lane == Lane::kLink) continue;
    const bool again = interval.lane == Lane::kCompute &&
                       !computed.emplace(interval.iteration, interval.rank, interval.action).second;
    for (const int32_t stage : {-1, interval.action.stage}) {
      Durations& durations = table[{stage, interval.action.kind}][side];
      durations.count += again ? 0 : 1;
      durations.sum += static_cast<double>((interval.end - interval.start).ns);
    }
  }
}

KindComparison to_row(int32_t stage, action::ActionKind kind, const Sides& sides) {
  KindComparison row;
  row.kind = to_name(kind);
  row.stage = stage;
  row.predicted_count = sides[0].count;
  row.measured_count = sides[1].count;
  const auto mean = [](const Durations& durations) -> std::optional<Seconds> {
    if (durations.count == 0) return std::nullopt;
    return Seconds{durations.sum / static_cast<double>(durations.count) * 1e-9};
  };
  row.predicted_mean = mean(sides[0]);
  row.measured_mean = mean(sides[1]);
  if (row.predicted_mean && row.measured_mean && row.measured_mean->value > 0) {
    row.relative_error = (*row.predicted_mean - *row.measured_mean) / *row.measured_mean;
  }
  return row;
}

// Adds what differs between two parts of Plans, key by key; null: the part is not there.
void find_differences(const std::string& key, const Value* a, const Value* b,
                      std::vector<PlanDifference>& out) {
  if (a && b && *a == *b) return;
  const auto* table = a ? a->get<Value::Table>() : nullptr;
  const auto* other_table = b ? b->get<Value::Table>() : nullptr;
  const auto under = [&](const std::string& name) {
    return key.empty() ? name : fmt::format("{}.{}", key, name);
  };
  if (table && other_table) {
    for (const auto& [name, value] : *table) {
      find_differences(under(name), &value, b->find(name), out);
    }
    for (const auto& [name, value] : *other_table) {
      if (!a->find(name)) find_differences(under(name), nullptr, &value, out);
    }
    return;
  }
  const auto* array = a ? a->get<Value::Array>() : nullptr;
  const auto* other_array = b ? b->get<Value::Array>() : nullptr;
  if (array && other_array && array->size() == other_array->size()) {
    for (size_t i = 0; i < array->size(); ++i) {
      find_differences(fmt::format("{}[{}]", key, i), &(*array)[i], &(*other_array)[i], out);
    }
    return;
  }
  const auto text = [](const Value* value) {
    constexpr size_t kTextMax = 40;
    std::string json = value ? to_json(*value, -1) : "";
    if (json.size() > kTextMax) json = json.substr(0, kTextMax - 4) + " ...";
    return json;
  };
  out.push_back({key, text(a), text(b)});
}

}  // namespace

std::vector<PlanDifference> plan_differences(const Header& predicted, const Header& measured) {
  std::vector<PlanDifference> out;
  const bool both = predicted.plan.get<Value::Table>() && measured.plan.get<Value::Table>();
  if (both) find_differences("", &predicted.plan, &measured.plan, out);
  return out;
}

std::string brief(const std::vector<PlanDifference>& differences) {
  constexpr size_t kShown = 4;
  const auto side = [](const std::string& text) { return text.empty() ? "nothing" : text; };
  std::string out;
  for (size_t i = 0; i < std::min(kShown, differences.size()); ++i) {
    const PlanDifference& each = differences[i];
    out += fmt::format("{}{} {} and {}", out.empty() ? "" : ", ", each.key, side(each.predicted),
                       side(each.measured));
  }
  if (differences.size() > kShown) out += fmt::format(", and {} more", differences.size() - kShown);
  return out;
}

std::string structure_digest(const Header& header) {
  if (!header.plan.get<Value::Table>()) return header.plan_digest;
  Value::Table structure;
  for (const char* key : {"model", "cluster", "training", "parallelism", "ranks"}) {
    if (const Value* part = header.plan.find(key)) structure.emplace_back(key, *part);
  }
  return digest(to_json(Value(std::move(structure)), -1));
}

int64_t warmup_of(size_t iterations, bool overlap) {
  const size_t needed = overlap ? 2 : 1;  // a period ends where the next one begins
  return iterations > needed ? 1 : 0;
}

int64_t warmup_of(const Trace& trace) {
  if (trace.header.provenance == Provenance::kPredicted) return 0;
  return warmup_of(iteration_times(trace).size(), trace.header.overlaps);
}

std::vector<IterationTime> warm_iterations(const Trace& trace, std::optional<int64_t> warmup) {
  std::vector<IterationTime> times = iteration_times(trace);
  const int64_t cold = warmup.value_or(warmup_of(trace));
  CHECK(cold >= 0, "{} iterations of warm-up", cold);
  times.erase(times.begin(), times.begin() + std::min(cold, std::ssize(times)));
  return times;
}

Result<Comparison> compare(const Trace& predicted, const Trace& measured,
                           const ComparisonOptions& options) {
  const bool same = predicted.header.plan_digest == measured.header.plan_digest ||
                    structure_digest(predicted.header) == structure_digest(measured.header);
  if (!same && !options.allow_different_plans) {
    const auto differences = plan_differences(predicted.header, measured.header);
    return unusable(
        "the traces were made from different Plans: model, cluster, training, "
        "parallelism or placement differ" +
            (differences.empty() ? "" : ": " + brief(differences)),
        "predicting the Plan that was run; tombolo train writes it next to its trace");
  }
  const std::vector<IterationTime> expected = iteration_times(predicted);
  if (expected.empty()) return unusable("the predicted trace has no iterations");
  Comparison out;
  out.warmup = options.warmup.value_or(warmup_of(measured));
  const std::vector<IterationTime> happened = warm_iterations(measured, out.warmup);
  if (happened.empty()) {
    return unusable(fmt::format("the measured trace has {} iterations, of which {} are warm-up",
                                iteration_times(measured).size(), out.warmup),
                    "more steps, or a smaller warm-up");
  }
  out.predicted_iteration = median_iteration(expected);
  out.measured_iteration = median_iteration(happened);
  out.predicted_iterations = static_cast<int64_t>(expected.size());
  out.measured_iterations = std::ssize(counting(happened));
  if (out.measured_iteration.ns == 0) {
    return unusable("the measured iterations take no time: nothing to compare with");
  }
  out.iteration_error = (seconds(out.predicted_iteration) - seconds(out.measured_iteration)) /
                        seconds(out.measured_iteration);

  Table table;
  collect(predicted, expected.front().iteration, 0, table);
  collect(measured, happened.front().iteration, 1, table);
  for (const auto& [key, sides] : table) {
    const auto& [stage, kind] = key;
    (stage < 0 ? out.per_kind : out.per_stage).push_back(to_row(stage, kind, sides));
  }
  return out;
}

}  // namespace tombolo::trace
