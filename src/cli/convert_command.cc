#include "base/file.h"
#include "cli/chakra_convert.h"
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

Result<plan::Plan> plan_of(const ConvertOptions& options) {
  InputOptions in;
  in.input = options.input;
  return load_plan(in);
}

// What Plans do not have yet: layers that several ranks share.
bool shares_layers(const plan::Parallelism& p) {
  return p.tensor > 1 || p.context > 1 || p.expert > 1 || p.zero > 0 || p.sequence_parallel;
}

Status write_as_chakra(const ConvertOptions& options, std::ostream& out) {
  if (!is_plan(TRY(read_file(options.input)))) {
    InputOptions in;
    in.input = options.input;
    const plan::Job job = TRY(load_job(in));
    if (shares_layers(job.parallelism) || options.remote_parameters)
      return write_job_as_chakra(job, options, out);
  }
  return write_plan_as_chakra(TRY(plan_of(options)), options, out);
}

Result<std::string> converted(const ConvertOptions& options) {
  if (options.to == "perfetto" || options.to == "csv") {
    const trace::Trace trace = TRY(trace::read_trace(options.input));
    return options.to == "perfetto" ? trace::to_perfetto(trace) : trace::to_csv(trace);
  }
  const plan::Plan plan = TRY(plan_of(options));
  if (options.to == "plan") return plan::to_json_text(plan);
  const schedule::Schedule schedule = TRY(schedule::build(plan));
  if (options.to == "schedule") {
    return schedule::to_csv(schedule, schedule::CsvContent::kEverything);
  }
  return graph::to_json_text(schedule::to_graph(plan, schedule));
}

}  // namespace

Status convert(const ConvertOptions& options, std::ostream& out) {
  const bool writes_chakra = options.to == "chakra" || options.to == "chakra-json";
  if (writes_chakra && options.out.empty()) {
    return unusable(fmt::format("--to {} writes files", options.to), "--out FILE");
  }
  if (options.retarget) return convert_retargeted(options, out);
  if (writes_chakra || options.to == "dot" || options.to == "statistics") {
    const graph::TraceFormat format = TRY(graph::read_format(options.input));
    if (format != graph::TraceFormat::kOther) return convert_chakra(options, format, out);
    if (options.to == "chakra") return write_as_chakra(options, out);
    return unusable(fmt::format("{}: --to {} wants a Chakra trace, or one of PyTorch",
                                options.input, options.to),
                    "--to chakra first, if it is a job or a Plan");
  }
  const std::string text = TRY(converted(options));
  if (!options.out.empty()) return write_file(options.out, text);
  out << text;
  return {};
}

}  // namespace tombolo::cli
