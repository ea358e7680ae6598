#include <CLI/CLI.hpp>
#include <algorithm>

#include "base/text_table.h"
#include "spec/trace/compare.h"
#include "spec/trace/machine_words.h"
#include "spec/trace/trace_file.h"
#include "ui/command/answer.h"
#include "ui/command/words.h"
#include "ui/evidence_commands/evidence_commands.h"

namespace tombolo::evidence_commands {
namespace {

// A duration or an error that a side may not have.
Value or_null(const std::optional<Seconds>& s) { return s ? Value(s->value) : Value(); }
Value or_null(const std::optional<double>& d) { return d ? Value(*d) : Value(); }
std::string or_dash(const std::optional<Seconds>& s) { return s ? brief(*s) : "-"; }
std::string or_dash(const std::optional<double>& d) { return d ? command::percent(*d) : "-"; }

Value rows_json(const std::vector<trace::KindComparison>& rows) {
  Value::Array out;
  for (const trace::KindComparison& row : rows) {
    Value::Table entry{{"kind", row.kind}};
    if (row.stage >= 0) entry.emplace_back("stage", int64_t{row.stage});
    entry.emplace_back("predicted_count", row.predicted_count);
    entry.emplace_back("measured_count", row.measured_count);
    entry.emplace_back("predicted_s", or_null(row.predicted_mean));
    entry.emplace_back("measured_s", or_null(row.measured_mean));
    entry.emplace_back("relative_error", or_null(row.relative_error));
    out.push_back(std::move(entry));
  }
  return out;
}

Value differences_json(const std::vector<trace::PlanDifference>& differences) {
  constexpr size_t kShown = 20;
  Value::Array out;
  for (size_t i = 0; i < std::min(kShown, differences.size()); ++i) {
    const trace::PlanDifference& each = differences[i];
    const auto side = [](const std::string& text) { return text.empty() ? Value() : Value(text); };
    out.push_back(Value::Table{
        {"key", each.key}, {"predicted", side(each.predicted)}, {"measured", side(each.measured)}});
  }
  return out;
}

}  // namespace

Status compare(const CompareOptions& options, std::ostream& out) {
  const trace::Trace predicted = TRY(trace::read_trace(options.predicted));
  const trace::Trace measured = TRY(trace::read_trace(options.measured));
  if (predicted.header.provenance != trace::Provenance::kPredicted &&
      measured.header.provenance == trace::Provenance::kPredicted) {
    return unusable(
        fmt::format("{} is {}, and {} is predicted: the prediction comes first", options.predicted,
                    to_name(predicted.header.provenance), options.measured),
        fmt::format("tombolo compare {} {}", options.measured, options.predicted));
  }
  const trace::Comparison result =
      TRY(trace::compare(predicted, measured, {.warmup = options.warmup}));
  const bool same_plan = predicted.header.plan_digest == measured.header.plan_digest;
  const std::vector<trace::PlanDifference> differences =
      same_plan ? std::vector<trace::PlanDifference>()
                : trace::plan_differences(predicted.header, measured.header);
  const trace::MachineWords machine = trace::machine_words(measured);
  if (options.json) {
    command::print_json(
        out, {{"predicted_provenance", std::string(to_name(predicted.header.provenance))},
              {"measured_provenance", std::string(to_name(measured.header.provenance))},
              {"predicted_iteration_ns", result.predicted_iteration.ns},
              {"measured_iteration_ns", result.measured_iteration.ns},
              {"iteration_error", result.iteration_error},
              {"measured_iterations", result.measured_iterations},
              {"warmup", result.warmup},
              {"machine_busy_share", or_null(machine.busy_share)},
              {"too_busy", machine.too_busy},
              {"same_plan", same_plan},
              {"plan_differences_count", static_cast<int64_t>(differences.size())},
              {"plan_differences", differences_json(differences)},
              {"per_kind", rows_json(result.per_kind)},
              {"per_stage", rows_json(result.per_stage)}});
    return {};
  }
  if (!same_plan) {
    out << "warning: the two Traces have different Plans"
        << (differences.empty() ? "" : ": " + trace::brief(differences)) << "\n";
  }
  out << command::iteration_line(predicted.header.provenance, seconds(result.predicted_iteration),
                                 "");
  out << command::iteration_line(
      measured.header.provenance, seconds(result.measured_iteration),
      fmt::format("median of {}, without the first {}; error {}", result.measured_iterations,
                  result.warmup, command::percent(result.iteration_error)));
  if (machine.too_busy) out << machine.line << "\n";
  TextTable table({text_column("action"), "stage",
                   std::string(to_name(predicted.header.provenance)),
                   std::string(to_name(measured.header.provenance)), "error"});
  for (const trace::KindComparison& row : result.per_stage) {
    table.row({row.kind, fmt::format("{}", row.stage), or_dash(row.predicted_mean),
               or_dash(row.measured_mean), or_dash(row.relative_error)});
  }
  out << table.text();
  return {};
}

command::Command add_compare(CLI::App& app) {
  auto options = std::make_shared<CompareOptions>();
  CLI::App* words = command::add_command(
      app, {"compare", command::kEvidence, "how far a prediction was from what happened",
            "tombolo compare run/predicted.jsonl run/trace.jsonl"});
  command::heading(words, command::kGoesIn);
  words->add_option("predicted", options->predicted, "Trace of simulate; - is stdin")
      ->type_name("PREDICTED")
      ->required();
  words->add_option("measured", options->measured, "Trace of train; - is stdin")
      ->type_name("MEASURED")
      ->required();
  words
      ->add_option(
          "--warmup", options->warmup,
          "measured iterations to leave out; left out: the first of what was performed, where "
          "others are left")
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 40));
  command::heading(words, command::kComesOut);
  command::add_json(words, options->json);
  return {words, [options](std::ostream& out) { return compare(*options, out); }};
}

}  // namespace tombolo::evidence_commands
