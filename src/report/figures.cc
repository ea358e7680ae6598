#include "report/figures.h"

#include <algorithm>
#include <map>
#include <optional>

#include "trace/breakdown.h"
#include "trace/compare.h"

namespace tombolo::report {
namespace {

using trace::Trace;

std::vector<trace::IterationTime> counting_iterations(const Trace& trace) {
  std::vector<trace::IterationTime> times = trace::iteration_times(trace);
  times.erase(times.begin(), times.begin() + warmup_of(trace));
  return times;
}

Value number_or_null(const std::optional<double>& number) {
  Value out;
  if (number) out = Value(*number);
  return out;
}

Value ns_or_null(const std::optional<Seconds>& duration) {
  return number_or_null(duration ? std::optional(duration->value * 1e9) : std::nullopt);
}

}  // namespace

int64_t warmup_of(const Trace& trace) {
  const bool performed = trace.header.provenance != trace::Provenance::kPredicted;
  return performed && trace::iteration_times(trace).size() > 1 ? 1 : 0;
}

Value iteration_summary(const Trace& trace) {
  const std::vector<trace::IterationTime> times = counting_iterations(trace);
  const auto [shortest, longest] = std::minmax_element(
      times.begin(), times.end(),
      [](const auto& a, const auto& b) { return a.end - a.start < b.end - b.start; });
  return Value::Table{{"median_ns", trace::median_iteration(times).ns},
                      {"min_ns", (shortest->end - shortest->start).ns},
                      {"max_ns", (longest->end - longest->start).ns},
                      {"iterations", static_cast<int64_t>(times.size())},
                      {"warmup", warmup_of(trace)}};
}

Value breakdown_rows(const Trace& trace) {
  const std::vector<trace::IterationTime> times = counting_iterations(trace);
  std::map<int32_t, trace::Parts> sums;
  for (const trace::RankParts& row : trace::breakdown(trace).rows) {
    if (row.iteration >= times.front().iteration) sums[row.rank] += row.parts;
  }
  const double count = static_cast<double>(times.size());
  const auto mean = [&](SimDuration sum) { return static_cast<double>(sum.ns) / count; };
  Value::Array rows;
  for (const auto& [rank, sum] : sums) {
    rows.push_back(Value::Table{{"rank", int64_t{rank}},
                                {"compute_ns", mean(sum.compute)},
                                {"exposed_communication_ns", mean(sum.exposed_communication)},
                                {"idle_ns", mean(sum.idle)}});
  }
  return rows;
}

Result<Value> comparison(const Trace& first, const Trace& second) {
  const trace::Comparison compared = TRY(
      trace::compare(first, second, {.warmup = warmup_of(second), .allow_different_plans = true}));
  Value::Array rows;
  for (const trace::KindComparison& row : compared.per_stage) {
    rows.push_back(Value::Table{{"kind", row.kind},
                                {"stage", int64_t{row.stage}},
                                {"first_ns", ns_or_null(row.predicted_mean)},
                                {"second_ns", ns_or_null(row.measured_mean)},
                                {"error", number_or_null(row.relative_error)}});
  }
  const bool same_work =
      trace::structure_digest(first.header) == trace::structure_digest(second.header);
  return Value::Table{
      {"same_work", same_work}, {"error", compared.iteration_error}, {"rows", std::move(rows)}};
}

}  // namespace tombolo::report
