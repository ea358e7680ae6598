#include "base/file.h"
#include "cli/commands.h"
#include "report/report.h"
#include "trace/trace_file.h"

namespace tombolo::cli {

Status report(const ReportOptions& options, std::ostream& out) {
  std::vector<trace::Trace> traces;
  for (const std::string& path : options.traces) traces.push_back(TRY(trace::read_trace(path)));
  const std::string page = TRY(report::render_html({.title = options.title}, traces));
  TRY(write_file(options.out, page));
  out << "report: " << options.out << "\n";
  return {};
}

}  // namespace tombolo::cli
