#include "spec/trace/compare.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

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

// An action that others interrupt (a pass that waits for parameters, an update group by group)
// counts once; the messages of a sum are counted with the sum.
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

// The number of the first iteration after `skip` of them, or nothing where none is left.
std::optional<int64_t> first_after(const std::vector<IterationTime>& times, int64_t skip) {
  if (skip < 0 || skip >= static_cast<int64_t>(times.size())) return std::nullopt;
  return times[static_cast<size_t>(skip)].iteration;
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

int64_t warmup_of(const Trace& trace) {
  const bool performed = trace.header.provenance != Provenance::kPredicted;
  const size_t needed = trace.header.overlaps ? 2 : 1;  // a period ends where the next one begins
  return performed && iteration_times(trace).size() > needed ? 1 : 0;
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
        "predicting the Plan that was run; tombolo train writes it beside its trace");
  }
  std::vector<IterationTime> expected = iteration_times(predicted);
  std::vector<IterationTime> happened = iteration_times(measured);
  if (expected.empty()) return unusable("the predicted trace has no iterations");
  const std::optional<int64_t> first = first_after(happened, options.warmup);
  if (!first) {
    return unusable(fmt::format("the measured trace has {} iterations, of which {} are warm-up",
                                happened.size(), options.warmup),
                    "more steps, or a smaller warm-up");
  }
  happened.erase(happened.begin(), happened.begin() + options.warmup);

  Comparison out;
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
  collect(measured, *first, 1, table);
  for (const auto& [key, sides] : table) {
    const auto& [stage, kind] = key;
    (stage < 0 ? out.per_kind : out.per_stage).push_back(to_row(stage, kind, sides));
  }
  return out;
}

}  // namespace tombolo::trace
