#include <CLI/CLI.hpp>

#include "base/file.h"
#include "spec/trace/trace_file.h"
#include "ui/command/words.h"
#include "ui/evidence_commands/evidence_commands.h"
#include "ui/report/report.h"

namespace tombolo::evidence_commands {

Status report(const ReportOptions& options, std::ostream& out) {
  std::vector<trace::Trace> traces;
  for (const std::string& path : options.traces) traces.push_back(TRY(trace::read_trace(path)));
  const std::string page = TRY(report::render_html({.title = options.title}, traces));
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
