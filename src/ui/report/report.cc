#include "ui/report/report.h"

#include <vector>

#include "spec/plan/plan_file.h"
#include "ui/report/figures.h"
#include "ui/report/template.h"
#include "ui/report/timeline.h"

namespace tombolo::report {
namespace {

using trace::Provenance;
using trace::Trace;

// Predictions first, as people read: what was expected, what happened.
std::vector<const Trace*> in_order(std::span<const Trace> traces) {
  std::vector<const Trace*> out;
  for (const Trace& trace : traces) out.push_back(&trace);
  if (out.size() == 2 && out[0]->header.provenance != Provenance::kPredicted &&
      out[1]->header.provenance == Provenance::kPredicted) {
    std::swap(out[0], out[1]);
  }
  return out;
}

Status check(const std::vector<const Trace*>& traces) {
  if (traces.empty() || traces.size() > 2) {
    return unusable(fmt::format("a report is made of one or two Traces, not {}", traces.size()),
                    "tombolo report predicted.jsonl trace.jsonl");
  }
  for (size_t t = 0; t < traces.size(); ++t) {
    if (!trace::iteration_times(*traces[t]).empty()) continue;
    const char* which = traces.size() == 1 ? "" : t == 0 ? "first " : "second ";
    return unusable(
        fmt::format("the {}Trace ({}, \"{}\") has no intervals of any iteration: there is nothing "
                    "to show",
                    which, to_name(traces[t]->header.provenance), traces[t]->header.name),
        "tombolo simulate JOB --out predicted.jsonl, or let tombolo train finish an iteration");
  }
  return {};
}

Value trace_data(const Trace& trace, const std::vector<int64_t>& iterations) {
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
                      {"machine", machine_load(trace)},
                      {"graph", graph_run(trace)},
                      {"iteration_times", iteration_curve(trace)},
                      {"records", record_curves(trace)},
                      {"timeline", timeline(trace, iterations)}};
}

// The Plan of the first Trace that carries one; none is fine, a broken one is not.
Result<Value> plan_data(const std::vector<const Trace*>& traces) {
  for (const Trace* trace : traces) {
    if (trace->header.plan.is_null()) continue;
    const plan::Plan plan =
        TRY(plan::from_value(trace->header.plan, fmt::format("the Plan in the {} Trace",
                                                             to_name(trace->header.provenance))));
    return plan_tables(plan);
  }
  return Value();
}

}  // namespace

Result<std::string> render_html(const Options& options, std::span<const Trace> traces) {
  const std::vector<const Trace*> ordered = in_order(traces);
  TRY(check(ordered));

  const std::vector<int64_t> chosen = chosen_iterations(*ordered.back());
  Value::Array trace_values;
  for (const Trace* trace : ordered) {
    trace_values.push_back(trace_data(*trace, matching_iterations(*trace, chosen)));
  }
  // TRY stands on lines of its own: returning from the middle of an initializer list leaks it.
  Value plan = TRY(plan_data(ordered));
  Value compared;
  if (ordered.size() == 2) compared = TRY(comparison(*ordered[0], *ordered[1]));
  const std::string& name = ordered.back()->header.name;
  const std::string title = !options.title.empty() ? options.title : name.empty() ? "run" : name;
  const Value data = Value::Table{{"title", title},
                                  {"traces", std::move(trace_values)},
                                  {"comparison", std::move(compared)},
                                  {"plan", std::move(plan)}};

  return fill_template(asset("page.html"), {{"title", escape_html(title)},
                                            {"style", asset("page.css")},
                                            {"d3", asset("d3.min.js")},
                                            {"words", asset("words.js")},
                                            {"timeline", asset("timeline.js")},
                                            {"pixels", asset("pixels.js")},
                                            {"tooltip", asset("tooltip.js")},
                                            {"overview", asset("overview.js")},
                                            {"drawing", asset("drawing.js")},
                                            {"gantt", asset("gantt.js")},
                                            {"charts", asset("charts.js")},
                                            {"sections", asset("sections.js")},
                                            {"graphs", asset("graphs.js")},
                                            {"inputs", asset("inputs.js")},
                                            {"page", asset("page.js")},
                                            {"data", script_json(data)}});
}

}  // namespace tombolo::report
