#include "ui/report/figures.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <string>

#include "base/fields.h"
#include "spec/trace/breakdown.h"
#include "spec/trace/compare.h"

namespace tombolo::report {
namespace {

using trace::Trace;

constexpr std::string_view kMachine = "machine_";

Value number_or_null(const std::optional<double>& number) {
  Value out;
  if (number) out = Value(*number);
  return out;
}

Value ns_or_null(const std::optional<Seconds>& duration) {
  return number_or_null(duration ? std::optional(duration->value * 1e9) : std::nullopt);
}

}  // namespace

Value iteration_summary(const Trace& trace) {
  const auto after_warmup = trace::warm_iterations(trace);
  const auto times = trace::counting(after_warmup);
  const auto [shortest, longest] = std::minmax_element(
      times.begin(), times.end(),
      [](const auto& a, const auto& b) { return a.end - a.start < b.end - b.start; });
  return Value::Table{{"median_ns", trace::median_iteration(after_warmup).ns},
                      {"min_ns", (shortest->end - shortest->start).ns},
                      {"max_ns", (longest->end - longest->start).ns},
                      {"iterations", static_cast<int64_t>(times.size())},
                      {"warmup", trace::warmup_of(trace)}};
}

Value breakdown_rows(const Trace& trace) {
  const std::vector<trace::IterationTime> times = trace::warm_iterations(trace);
  struct Sums {
    trace::Parts parts;
    SimDuration prompts, prompts_exposed;
  };
  std::map<int32_t, Sums> sums;
  bool any_prompts = false;
  for (const trace::RankParts& row : trace::breakdown(trace).rows) {
    if (row.iteration < times.front().iteration) continue;
    Sums& sum = sums[row.rank];
    sum.parts += row.parts;
    sum.prompts += row.prompts();
    sum.prompts_exposed += row.prompts_exposed;
    any_prompts = any_prompts || row.prompts().ns > 0;
  }
  const double count = static_cast<double>(times.size());
  const auto mean = [&](SimDuration sum) { return static_cast<double>(sum.ns) / count; };
  Value::Array rows;
  for (const auto& [rank, sum] : sums) {
    const SimDuration exposed = sum.parts.exposed_communication - sum.prompts_exposed;
    const SimDuration idle = sum.parts.idle - (sum.prompts - sum.prompts_exposed);
    Value::Table row{{"rank", int64_t{rank}}, {"compute_ns", mean(sum.parts.compute)}};
    if (any_prompts) row.emplace_back("prompts_ns", mean(sum.prompts));
    row.emplace_back("exposed_communication_ns", mean(exposed));
    row.emplace_back("idle_ns", mean(idle));
    rows.push_back(std::move(row));
  }
  return rows;
}

bool is_about_machine(std::string_view name) { return name.substr(0, kMachine.size()) == kMachine; }

Value machine_load(const Trace& trace) {
  struct Load {
    int64_t count = 0;
    double sum = 0;
    double max = 0;
  };
  std::map<std::string, Load> loads;
  for (const trace::Record& record : trace.records) {
    if (!is_about_machine(record.name) || !std::isfinite(record.value)) continue;
    Load& load = loads[record.name.substr(kMachine.size())];
    load.max = load.count == 0 ? record.value : std::max(load.max, record.value);
    load.sum += record.value;
    ++load.count;
  }
  Value::Array out;
  for (const auto& [name, load] : loads) {
    out.push_back(Value::Table{
        {"name", name}, {"mean", load.sum / static_cast<double>(load.count)}, {"max", load.max}});
  }
  return out;
}

Value graph_run(const Trace& trace) {
  if (!trace.header.graph) return {};
  const trace::GraphRun& run = *trace.header.graph;
  SimDuration finish;
  Value::Array inputs, exposed, dimensions, left_out;
  for (const trace::InputFact& fact : run.inputs) {
    inputs.push_back(Value::Array{Value(fact.what), Value(fact.text)});
  }
  for (const trace::ExposedRow& row : run.exposed) {
    finish = std::max(finish, row.time.total());
    Value columns = write_fields(row.time);
    columns.get<Value::Table>()->emplace_back("label", row.label);
    exposed.push_back(std::move(columns));
  }
  for (const trace::DimensionUse& use : run.dimensions) dimensions.push_back(write_fields(use));
  for (const std::string& sentence : run.left_out) left_out.emplace_back(sentence);
  return Value::Table{{"finish_ns", finish.ns},
                      {"inputs", std::move(inputs)},
                      {"exposed", std::move(exposed)},
                      {"dimensions", std::move(dimensions)},
                      {"left_out", std::move(left_out)}};
}

Result<Value> comparison(const Trace& first, const Trace& second) {
  const trace::Comparison compared =
      TRY(trace::compare(first, second, {.allow_different_plans = true}));
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
