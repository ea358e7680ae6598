#include "ui/report/report.h"

#include <utility>
#include <vector>

#include "base/check.h"
#include "spec/plan/plan_file.h"
#include "spec/trace/machine_words.h"
#include "ui/report/figures.h"
#include "ui/report/template.h"
#include "ui/report/timeline.h"

namespace tombolo::report {
namespace {

using trace::Provenance;
using trace::Trace;

// A Trace, and what its command knows of it.
struct Shown {
  const Trace* trace = nullptr;
  std::optional<Figures> figures;
};

// Predictions first, as people read: what was expected, what happened.
std::vector<Shown> in_order(const Options& options, std::span<const Trace> traces) {
  CHECK(options.figures.empty() || options.figures.size() == traces.size(),
        "figures of {} Traces, of which there are {}", options.figures.size(), traces.size());
  std::vector<Shown> out;
  for (size_t t = 0; t < traces.size(); ++t) {
    out.push_back({&traces[t], options.figures.empty() ? std::nullopt : options.figures[t]});
  }
  const auto predicted = [&](size_t t) {
    return out[t].trace->header.provenance == Provenance::kPredicted;
  };
  if (out.size() == 2 && !predicted(0) && predicted(1)) std::swap(out[0], out[1]);
  return out;
}

Status check(const std::vector<Shown>& traces) {
  if (traces.empty() || traces.size() > 2) {
    return unusable(fmt::format("a report is made of one or two Traces, not {}", traces.size()),
                    "tombolo report predicted.jsonl trace.jsonl");
  }
  for (size_t t = 0; t < traces.size(); ++t) {
    const Trace& trace = *traces[t].trace;
    if (!trace::iteration_times(trace).empty()) continue;
    const char* which = traces.size() == 1 ? "" : t == 0 ? "first " : "second ";
    return unusable(
        fmt::format("the {}Trace ({}, \"{}\") has no intervals of any iteration: there is nothing "
                    "to show",
                    which, to_name(trace.header.provenance), trace.header.name),
        "tombolo simulate JOB --out predicted.jsonl, or let tombolo train finish an iteration");
  }
  return {};
}

Value figures_data(const std::optional<Figures>& figures) {
  if (!figures) return {};
  const auto or_null = [](const auto& known, auto number) {
    return known ? Value(number(*known)) : Value();
  };
  const auto plain = [](double number) { return number; };
  const auto value = [](const auto& quantity) { return quantity.value; };
  return Value::Table{{"tokens_per_s", or_null(figures->tokens_per_s, plain)},
                      {"mfu", or_null(figures->mfu, plain)},
                      {"cost_usd", or_null(figures->cost, value)},
                      {"devices", figures->devices},
                      {"memory_peak_bytes", or_null(figures->memory_peak, value)},
                      {"memory_bytes", figures->memory.value},
                      {"memory_rank", int64_t{figures->memory_rank}}};
}

// How busy the machine was, as the commands say it; null where nothing was measured.
Value busy_data(const Trace& trace) {
  const trace::MachineWords words = trace::machine_words(trace);
  if (!words.busy_share && !words.too_busy) return {};
  return Value::Table{{"busy_share", words.busy_share ? Value(*words.busy_share) : Value()},
                      {"too_busy", words.too_busy}};
}

Value trace_data(const Shown& shown, const std::vector<int64_t>& iterations, size_t bytes_max) {
  const Trace& trace = *shown.trace;
  const trace::Header& h = trace.header;
  return Value::Table{{"provenance", std::string(to_name(h.provenance))},
                      {"name", h.name},
                      {"command", h.command},
                      {"version", h.version},
                      {"plan_digest", h.plan_digest},
                      {"fingerprint", h.fingerprint},
                      {"seed", fmt::format("{}", h.seed)},  // beyond what JavaScript can count
                      {"byte_scale", h.byte_scale},
                      {"intervals", static_cast<int64_t>(trace.intervals.size())},
                      {"summary", iteration_summary(trace)},
                      {"breakdown", breakdown_rows(trace)},
                      {"figures", figures_data(shown.figures)},
                      {"machine", machine_load(trace)},
                      {"busy", busy_data(trace)},
                      {"graph", graph_run(trace)},
                      {"iteration_times", iteration_curve(trace)},
                      {"records", record_curves(trace)},
                      {"decisions", density_decisions(trace)},
                      {"batch", batch_decisions(trace)},
                      {"timeline", timeline(trace, iterations, bytes_max)}};
}

// The Plan of the first Trace that carries one; none is fine, a broken one is not.
Result<Value> plan_data(const std::vector<Shown>& traces) {
  for (const Shown& shown : traces) {
    const std::optional<plan::Plan> plan = TRY(plan_of(*shown.trace));
    if (plan) return plan_tables(*plan);
  }
  return Value();
}

}  // namespace

Result<std::optional<plan::Plan>> plan_of(const Trace& trace) {
  if (trace.header.plan.is_null()) return std::optional<plan::Plan>();
  return std::optional(
      TRY(plan::from_value(trace.header.plan, fmt::format("the Plan in the {} Trace",
                                                          to_name(trace.header.provenance)))));
}

Result<std::string> render_html(const Options& options, std::span<const Trace> traces) {
  const std::vector<Shown> ordered = in_order(options, traces);
  TRY(check(ordered));

  const std::vector<int64_t> chosen = chosen_iterations(*ordered.back().trace);
  Value::Array trace_values;
  for (const Shown& shown : ordered) {
    trace_values.push_back(
        trace_data(shown, matching_iterations(*shown.trace, chosen), options.timeline_bytes));
  }
  // TRY stands on lines of its own: returning from the middle of an initializer list leaks it.
  Value plan = TRY(plan_data(ordered));
  Value compared;
  if (ordered.size() == 2) {
    compared = TRY(comparison(*ordered[0].trace, *ordered[1].trace));
  }
  const std::string& name = ordered.back().trace->header.name;
  const std::string title = !options.title.empty() ? options.title : name.empty() ? "run" : name;
  const Value data = Value::Table{{"title", title},
                                  {"traces", std::move(trace_values)},
                                  {"comparison", std::move(compared)},
                                  {"plan", std::move(plan)}};

  return fill_template(asset("page.html"),
                       {{"title", escape_html(title)},        {"style", asset("page.css")},
                        {"d3", asset("d3.min.js")},           {"words", asset("words.js")},
                        {"rows", asset("rows.js")},           {"timeline", asset("timeline.js")},
                        {"pixels", asset("pixels.js")},       {"tooltip", asset("tooltip.js")},
                        {"overview", asset("overview.js")},   {"drawing", asset("drawing.js")},
                        {"gantt", asset("gantt.js")},         {"charts", asset("charts.js")},
                        {"sections", asset("sections.js")},   {"decisions", asset("decisions.js")},
                        {"line", asset("line.js")},           {"batch", asset("batch.js")},
                        {"graphs", asset("graphs.js")},       {"inputs", asset("inputs.js")},
                        {"view_hash", asset("view_hash.js")}, {"page", asset("page.js")},
                        {"data", script_json(data)}});
}

}  // namespace tombolo::report
