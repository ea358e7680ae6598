#include "base/file.h"
#include "cli/commands.h"
#include "cli/input.h"
#include "graph/graph_file.h"
#include "plan/plan_file.h"
#include "schedule/schedule.h"
#include "schedule/schedule_csv.h"
#include "trace/perfetto.h"
#include "trace/trace_csv.h"
#include "trace/trace_file.h"

namespace tombolo::cli {
namespace {

Result<std::string> converted(const ConvertOptions& options) {
  if (options.to == "perfetto" || options.to == "csv") {
    const trace::Trace trace = TRY(trace::read_trace(options.input));
    return options.to == "perfetto" ? trace::to_perfetto(trace) : trace::to_csv(trace);
  }
  InputOptions in;
  in.input = options.input;
  const plan::Plan plan = TRY(load_plan(in));
  if (options.to == "plan") return plan::to_json_text(plan);
  const schedule::Schedule schedule = TRY(schedule::build(plan));
  if (options.to == "schedule") {
    return schedule::to_csv(schedule, schedule::CsvContent::kEverything);
  }
  return graph::to_json_text(schedule::to_graph(plan, schedule));
}

}  // namespace

Status convert(const ConvertOptions& options, std::ostream& out) {
  const std::string text = TRY(converted(options));
  if (!options.out.empty()) return write_file(options.out, text);
  out << text;
  return {};
}

}  // namespace tombolo::cli
