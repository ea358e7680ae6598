#include <CLI/CLI.hpp>
#include <iostream>

#include "base/file.h"
#include "decide/across/exchange_choice.h"
#include "decide/search/export.h"
#include "spec/graph/graph.h"
#include "spec/plan/job_value.h"
#include "spec/plan/plan_file.h"
#include "spec/schedule/schedule.h"
#include "spec/schedule/schedule_csv.h"
#include "spec/trace/trace_file.h"
#include "ui/command/input.h"
#include "ui/command/words.h"
#include "ui/predict_commands/predict_commands.h"

namespace tombolo::predict_commands {
namespace {

Result<plan::Plan> plan_of(const ConvertOptions& options) {
  command::InputOptions in;
  in.input = options.input;
  return command::load_plan(in);
}

// What the graphs of a Plan's ranks do not have: layers that several devices share.
bool shares_layers(const layout::Parallelism& p) {
  return p.tensor > 1 || !p.tensor_per_stage.empty() || p.context > 1 || p.expert > 1 ||
         p.zero > 0 || p.sequence_parallel;
}

Status write_as_chakra(const ConvertOptions& options, std::ostream& out) {
  const plan::JobValue value = TRY(plan::read_job_value(options.input));
  const plan::Job job =
      TRY(across::with_exchange_chosen(TRY(plan::job_from_value(value.value, options.input))));
  if (!shares_layers(job.parallelism) && !options.remote_parameters) {
    return write_plan_as_chakra(TRY(plan_of(options)), options, out);
  }
  for (const std::string& note : value.notes) std::cerr << "note: " << note << "\n";
  command::note_lost_strands(job);
  return write_job_as_chakra(job, options, out);
}

// The words of other programs; what they cannot say goes to stderr.
Result<std::string> exported(const ConvertOptions& options) {
  command::InputOptions in;
  in.input = options.input;
  const plan::Job job = TRY(command::load_job(in));
  const search::Export words = TRY(search::export_job(job, options.to));
  for (const std::string& note : words.notes) std::cerr << "note: " << note << "\n";
  return words.text;
}

Result<std::string> converted(const ConvertOptions& options) {
  if (options.to == "perfetto" || options.to == "csv") {
    const trace::Trace trace = TRY(trace::read_trace(options.input));
    return options.to == "perfetto" ? trace::to_perfetto(trace) : trace::to_csv(trace);
  }
  if (options.to == "megatron" || options.to == "torchtitan") return exported(options);
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
    const chakra::TraceFormat format = TRY(chakra::read_format(options.input));
    if (format != chakra::TraceFormat::kOther) return convert_chakra(options, format, out);
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

command::Command add_convert(CLI::App& app) {
  auto options = std::make_shared<ConvertOptions>();
  CLI::App* words = command::add_command(
      app, {"convert", command::kEvidence, "Traces, jobs, Plans and Chakra traces to other formats",
            "tombolo convert examples/toy/job.toml --to schedule"});
  command::heading(words, command::kGoesIn);
  words
      ->add_option("input", options->input,
                   "Trace, Plan, job, Chakra trace or execution trace of PyTorch; - is stdin")
      ->type_name("FILE")
      ->required();
  words
      ->add_option("--kineto", options->kineto,
                   "PyTorch: Kineto's trace of the same run, which knows the times")
      ->type_name("FILE");
  command::heading(words, "Of Chakra traces");
  words->add_flag("--repair", options->repair,
                  "Chakra: drop dependencies that cannot be, and list them");
  command::choices(
      words->add_option(
          "--granularity", options->granularity,
          "job or Plan with tensor, context or expert parallelism or ZeRO to chakra: nodes per "
          "layer, or per stage"),
      {"layer", "stage"});
  words
      ->add_option("--retarget", options->retarget,
                   "Chakra traces PREFIX.RANK.et (input: PREFIX) to chakra: as of that "
                   "many ranks, with more or fewer data-parallel replicas")
      ->type_name("RANKS");
  words
      ->add_option("--comm-groups", options->comm_groups,
                   "--retarget: JSON, communicator group to ranks")
      ->type_name("FILE");
  words
      ->add_option("--data-groups", options->data_groups,
                   "--retarget: names of all groups that join replicas; left out: found")
      ->type_name("NAME,...")
      ->delimiter(',');
  words->add_flag("--remote-parameters", options->remote_parameters,
                  "job with ZeRO 3 to chakra: shards live in remote memory, loaded "
                  "before they are gathered and stored when they are summed");
  command::heading(words, command::kComesOut);
  command::choices(words->add_option("--to", options->to, "what to write"),
                   {"perfetto", "csv", "plan", "graph", "schedule", "chakra", "chakra-json", "dot",
                    "statistics", "megatron", "torchtitan"})
      ->required();
  words
      ->add_option("--out", options->out,
                   "left out: stdout. Job or Plan to chakra: PREFIX of PREFIX.RANK.et")
      ->type_name("FILE");
  command::add_json(words, options->json);
  return {words, [options](std::ostream& out) { return convert(*options, out); }};
}

}  // namespace tombolo::predict_commands
