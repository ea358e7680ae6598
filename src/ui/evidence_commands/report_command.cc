#include <CLI/CLI.hpp>
#include <optional>

#include "base/file.h"
#include "predict/cost/worth.h"
#include "spec/schedule/schedule.h"
#include "spec/trace/compare.h"
#include "spec/trace/trace_file.h"
#include "ui/command/words.h"
#include "ui/evidence_commands/evidence_commands.h"
#include "ui/report/report.h"

namespace tombolo::evidence_commands {
namespace {

// What `tombolo simulate` says of such an iteration; nothing of a Trace without a Plan.
Result<std::optional<report::Figures>> figures_of(const trace::Trace& trace) {
  const std::optional<plan::Plan> plan = TRY(report::plan_of(trace));
  const auto times = trace::warm_iterations(trace);
  if (!plan || times.empty()) return std::optional<report::Figures>();
  const cost::Worth worth = cost::worth_of(*plan, seconds(trace::median_iteration(times)));
  report::Figures figures{.tokens_per_s = worth.tokens_per_s,
                          .mfu = worth.mfu,
                          .cost = worth.cost.total(),
                          .devices = plan->devices(),
                          .memory_peak = {},
                          .memory = {}};
  if (!plan->has_model()) return std::optional(figures);
  if (const Result<schedule::Schedule> schedule = schedule::build(*plan)) {
    const cost::MemoryPeak peak = cost::memory_peak(*plan, schedule::peak_memory(*plan, *schedule));
    figures.memory_peak = peak.bytes;
    figures.memory = peak.capacity;
    figures.memory_rank = peak.rank;
  }
  return std::optional(figures);
}

}  // namespace

Status report(const ReportOptions& options, std::ostream& out) {
  std::vector<trace::Trace> traces;
  report::Options page_options{.title = options.title};
  for (const std::string& path : options.traces) {
    traces.push_back(TRY(trace::read_trace(path)));
    page_options.figures.push_back(TRY(figures_of(traces.back())));
  }
  const std::string page = TRY(report::render_html(page_options, traces));
  TRY(write_file(options.out, page));
  out << "report: " << options.out << "\n";
  return {};
}

command::Command add_report(CLI::App& app) {
  auto options = std::make_shared<ReportOptions>();
  CLI::App* words = command::add_command(
      app, {"report", command::kEvidence, "one self-contained HTML page from one or two Traces",
            "tombolo report run/predicted.jsonl run/trace.jsonl --out report.html"});
  command::heading(words, command::kGoesIn);
  words->add_option("traces", options->traces, "predicted, measured; - is stdin")
      ->type_name("TRACE")
      ->required();
  command::heading(words, command::kComesOut);
  words->add_option("--out", options->out, "page to write")->type_name("FILE");
  words->add_option("--title", options->title, "of the page")->type_name("NAME");
  return {words, [options](std::ostream& out) { return report(*options, out); }};
}

}  // namespace tombolo::evidence_commands
