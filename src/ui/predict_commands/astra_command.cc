#include "ui/predict_commands/astra_command.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <filesystem>
#include <iostream>
#include <map>

#include "base/file.h"
#include "base/json.h"
#include "predict/astra/astra_run.h"
#include "spec/trace/trace_file.h"
#include "ui/command/answer.h"
#include "ui/command/output_files.h"
#include "ui/command/words.h"
#include "ui/predict_commands/astra_job.h"
#include "ui/report/report.h"

namespace tombolo::predict_commands {
namespace {

using namespace astra;

Status check(const AstraCommandOptions& options) {
  const auto missing = [](const std::string& value, const char* option,
                          const char* example) -> Status {
    if (!value.empty()) return {};
    return unusable(fmt::format("{} is missing", option), fmt::format("{}={}", option, example));
  };
  if (options.job.empty()) {
    TRY(missing(options.workload, "--workload-configuration",
                "PREFIX, for PREFIX.0.et, PREFIX.1.et, ..., or --job=JOB.toml"));
  } else if (!options.workload.empty() || options.spmd || !options.comm_groups.empty()) {
    return unusable("--job makes the traces and groups of all ranks itself",
                    "--job without --workload-configuration, --comm-group-configuration, --spmd");
  }
  if (options.retarget && (!options.job.empty() || options.spmd)) {
    return unusable("--retarget takes the traces of all ranks of a run",
                    "--retarget with --workload-configuration and --comm-group-configuration");
  }
  if (options.set.empty() && (!options.csv.empty() || options.threads != 0)) {
    return unusable("--csv and --jobs belong to a sweep", "--set network.bandwidth=50,100");
  }
  if (options.threads < 0 || options.threads > 1024) {
    return unusable(fmt::format("--jobs={}: must be between 1 and 1024", options.threads));
  }
  if (options.granularity != "layer" && options.granularity != "stage") {
    return unusable(fmt::format("--granularity={}: no such granularity", options.granularity),
                    "layer or stage");
  }
  const bool pictures = !options.trace.empty() || !options.report.empty() || options.summary;
  if (!options.set.empty() && pictures) {
    return unusable("--trace, --report and --summary are of one run, --set asks for many",
                    "leave out --set");
  }
  if (options.job.empty() || !options.set.empty()) {
    TRY(missing(options.system, "--system-configuration", "system.json"));
    TRY(missing(options.network, "--network-configuration", "network.yml"));
  }
  if (options.collapse != "on" && options.collapse != "off") {
    return unusable(fmt::format("--collapse={}: is neither on nor off", options.collapse),
                    "--collapse=off simulates every rank");
  }
  if (options.comm_scale != 1 || options.compute_scale != 1) {
    return unusable(
        "--comm-scale and --compute-scale change nothing in ASTRA-sim, and are refused here",
        "leave them out");
  }
  if (!(options.injection_scale >= 0) || options.injection_scale > 1e6) {
    return unusable(
        fmt::format("--injection-scale={}: must be between 0 and 1e6", options.injection_scale));
  }
  if (options.queues < 1 || options.queues > 255) {
    return unusable(
        fmt::format("--num-queues-per-dim={}: must be between 1 and 255", options.queues));
  }
  return {};
}

Result<AstraOptions> to_options(const AstraCommandOptions& in) {
  AstraOptions out;
  out.workload.prefix = in.workload;
  out.workload.comm_groups = in.comm_groups == "empty" ? "" : in.comm_groups;
  out.workload.spmd = in.spmd;
  out.system = in.system;
  out.network = in.network;
  out.remote_memory = in.remote_memory;
  out.collapse = in.collapse == "on";
  out.injection_scale = in.injection_scale;
  out.machine.queues_per_dimension = in.queues;
  out.machine.rendezvous = in.rendezvous;
  const auto law = from_name<NetworkLaw>(in.law);
  if (!law) {
    return unusable(fmt::format("--law={}: no such law", in.law),
                    "analytical, congestion or fluid");
  }
  out.machine.law = *law;
  if (in.groups.empty()) {
    out.groups = in.job.empty() ? GroupShape::kRing : GroupShape::kHierarchical;
    return out;
  }
  const auto groups = from_name<GroupShape>(in.groups);
  if (!groups) {
    return unusable(fmt::format("--groups={}: no such way", in.groups), "ring or hierarchical");
  }
  out.groups = *groups;
  return out;
}

// The lines that ASTRA-sim's loggers write of a rank, without the time of day.
void print_rank(fmt::memory_buffer& text, int32_t r, const RankReport& rank, bool roofline) {
  const auto out = std::back_inserter(text);
  fmt::format_to(
      out, "[workload] [info] sys[{}] finished, {} cycles, exposed communication {} cycles.\n", r,
      rank.finish.ns, rank.finish.ns - rank.computing.ns);
  fmt::format_to(out, "[statistics] [info] sys[{}], Wall time: {}\n", r, rank.finish.ns);
  const auto line = [&](const char* name, SimDuration time) {
    fmt::format_to(out, "[statistics] [info] sys[{}], {}: {}\n", r, name, time.ns);
  };
  if (rank.uses_host) line("CPU time", rank.host);
  if (rank.uses_accelerator) line("GPU time", rank.accelerator);
  if (rank.communicates) line("Comm time", rank.communication);
  if (rank.uses_memory) line("Remote mem time", rank.memory);
  const SimDuration overlap = rank.overlap().value_or(SimDuration{});
  if (overlap.ns > 0) line("Total compute-communication overlap", overlap);
  if (!roofline) return;
  const double total = static_cast<double>((rank.host + rank.accelerator).ns) + 1;
  const auto average = [&](const char* name, double sum, double scale, const char* unit) {
    fmt::format_to(out, "[statistics] [info] sys[{}], {}: {:.3f}{}\n", r, name, sum / total * scale,
                   unit);
  };
  average("Compute bound percentage", rank.compute_bound, 100, "%");
  average("Average compute utilization", rank.compute_utilization, 100, "%");
  average("Average memory utilization", rank.memory_utilization, 100, "%");
  average("Average operation intensity", rank.intensity, 1, "");
}

void print_peak(fmt::memory_buffer& text, int32_t r, int64_t bytes) {
  constexpr const char* kUnits[] = {"B", "KB", "MB", "GB", "TB"};
  auto amount = static_cast<double>(bytes);
  size_t unit = 0;
  for (; amount >= 1024 && unit < 4; ++unit) amount /= 1024;
  fmt::format_to(std::back_inserter(text),
                 "[workload] [info] sys[{}] peak memory usage: {:.2f} {}\n", r, amount,
                 kUnits[unit]);
}

// Of every NPU that was simulated; others do as one of these does.
Status write_memory(const AstraAnswer& answer) {
  if (!answer.local_memory || answer.memory_trace.empty()) return {};
  for (const int32_t npu : answer.local_memory->simulated()) {
    TRY(write_file(fmt::format("{}.{}.json", answer.memory_trace, npu),
                   to_json(answer.local_memory->trace(npu))));
  }
  return {};
}

constexpr int32_t kLinesMax = 1024;  // NPUs of a job of which each has its lines

// Of more: when they end, and the lines of one that ends first and of one that ends last.

void print_some_ranks(std::ostream& out, const AstraAnswer& answer) {
  struct Kind {
    int32_t first = 0;  // NPU
    int32_t npus = 0;
  };
  std::map<std::pair<int64_t, int64_t>, Kind> kinds;  // by finish and computing, which lines show
  int64_t exposed = 0;
  for (int32_t r = 0; r < answer.npus; ++r) {
    const RankReport& rank = answer.rank(r);
    Kind& kind = kinds.try_emplace({rank.finish.ns, rank.computing.ns}, Kind{r}).first->second;
    ++kind.npus;
    exposed += (rank.finish.ns - rank.computing.ns) / answer.npus;
  }
  fmt::memory_buffer text;
  const auto print = [&](const Kind& kind) {
    fmt::format_to(std::back_inserter(text), "{}, such as sys[{}]:\n",
                   kind.npus == 1 ? "one NPU" : fmt::format("{} NPUs", kind.npus), kind.first);
    print_rank(text, kind.first, answer.rank(kind.first), answer.roofline);
    if (answer.local_memory) print_peak(text, kind.first, answer.local_memory->peak(kind.first));
  };
  fmt::format_to(std::back_inserter(text),
                 "{} NPUs finish after {} to {} cycles, in {} ways; exposed communication in the "
                 "mean {} cycles. --per-npu prints the lines of each.\n",
                 answer.npus, kinds.begin()->first.first, kinds.rbegin()->first.first, kinds.size(),
                 exposed);
  print(kinds.begin()->second);
  if (kinds.size() > 1) print(kinds.rbegin()->second);
  out.write(text.data(), static_cast<std::streamsize>(text.size()));
}

void print_ranks(std::ostream& out, const AstraAnswer& answer) {
  fmt::memory_buffer text;
  for (int32_t r = 0; r < answer.npus; ++r) {
    print_rank(text, r, answer.rank(r), answer.roofline);
    if (answer.local_memory) print_peak(text, r, answer.local_memory->peak(r));
    if (text.size() < 1 << 16 && r + 1 < answer.npus) continue;
    out.write(text.data(), static_cast<std::streamsize>(text.size()));
    text.clear();
  }
}

constexpr const char* kThemisInVain =
    "inter-dimension-scheduling = themis has no effect: no collective goes through several "
    "dimensions, whose order it would choose";

std::string first_of(const std::vector<int32_t>& ranks) {
  constexpr size_t kMost = 8;
  std::string out;
  for (size_t i = 0; i < std::min(ranks.size(), kMost); ++i) {
    out += fmt::format("{}{}", i == 0 ? "" : ", ", ranks[i]);
  }
  return ranks.size() > kMost ? out + ", ..." : out;
}

// What ASTRA-sim does without a word, and what hierarchical groups cannot.
void print_notes(const AstraAnswer& answer, const AstraOptions& run) {
  if (answer.report.themis_in_vain) std::cerr << "note: " << kThemisInVain << "\n";
  for (const graph::CollectiveType kind : answer.report.short_lists) {
    std::cerr << fmt::format(
        "note: {} names fewer algorithms for {} than {} has dimensions: the others are not used, "
        "as "
        "in ASTRA-sim, and count as if they had one NPU each\n",
        run.system, to_name(kind), run.network);
  }
  for (const auto& [size, ranks] : answer.report.scattered_groups) {
    std::cerr << fmt::format(
        "note: groups of {} ranks such as {} are no products of parts of {}: each is one ring in "
        "the order of its ranks, as slow as the thinnest link between two of them\n",
        size, first_of(ranks), answer.topology);
  }
  const std::string beyond = fmt::format("{}.{}.et", run.workload.prefix, answer.npus);
  std::error_code none;
  if (!run.workload.prefix.empty() && !run.workload.spmd && std::filesystem::exists(beyond, none)) {
    std::cerr << fmt::format("note: {} and what follows it are not read: {} has {} NPUs\n", beyond,
                             run.network, answer.npus);
  }
}

// A Trace and a page made of it.
Status add_pictures(const AstraCommandOptions& options, const trace::Trace& trace,
                    command::OutputFiles& files) {
  if (!options.trace.empty()) TRY(files.add(options.trace, trace::to_json_lines(trace)));
  if (options.report.empty()) return {};
  return files.add(options.report, TRY(report::render_html({}, {&trace, 1})));
}

}  // namespace

Status astra(const AstraCommandOptions& options, std::ostream& out) {
  TRY(check(options));
  const auto begin = std::chrono::steady_clock::now();
  AstraOptions run = TRY(to_options(options));
  if (!options.set.empty()) return astra_sweep(options, run, out);
  const bool pictures = !options.trace.empty() || !options.report.empty();
  AstraLedger ledger;
  AstraRecorder recorder({.ranks_max = options.trace_ranks});
  if (pictures || options.summary || options.json) run.machine.observers.push_back(&ledger);
  if (pictures) run.machine.observers.push_back(&recorder);
  run.workload.names = pictures;
  std::optional<JobAnswer> job;
  if (!options.job.empty()) {
    const auto granularity = options.granularity == "stage" ? workload::Granularity::kStage
                                                            : workload::Granularity::kLayer;
    job = TRY(run_job(options.job, {granularity, options.remote_parameters}, run));
  }
  const AstraAnswer answer =
      job ? std::move(job->run.answer)
          : TRY(options.retarget ? run_retargeted({*options.retarget, options.data_groups}, run)
                                 : run_astra(run));
  const std::chrono::duration<double> wall = std::chrono::steady_clock::now() - begin;
  print_notes(answer, run);
  command::OutputFiles files;
  if (pictures) TRY(add_pictures(options, make_trace(options, answer, ledger, recorder), files));
  TRY(write_memory(answer));
  TRY(files.commit());
  if (!options.json) {
    if (job) std::cerr << job->brief(answer) << "\n";
    if (job && answer.npus > kLinesMax && !options.per_npu) {
      print_some_ranks(out, answer);
    } else {
      print_ranks(out, answer);
    }
    if (options.summary) out << figures_text(ledger);
    return {};
  }
  Value::Table json{{"npus", int64_t{answer.npus}},
                    {"topology", answer.topology},
                    {"law", options.law},
                    {"finish_ns", answer.finish().ns},
                    {"collapsed", answer.collapsed()},
                    {"events", static_cast<int64_t>(answer.report.events)},
                    {"fingerprint", answer.report.fingerprint},
                    {"wall_s", wall.count()}};
  if (job) json.emplace_back("job", job->to_value(answer));
  add_figures(json, ledger, options.per_npu);
  if (options.per_npu) {
    Value::Array per_npu;
    for (int32_t r = 0; r < answer.npus; ++r) per_npu.emplace_back(answer.rank(r).finish.ns);
    json.emplace_back("per_npu", std::move(per_npu));
  }
  if (answer.local_memory) {
    int64_t peak = 0;
    for (const int32_t npu : answer.local_memory->simulated()) {
      peak = std::max(peak, answer.local_memory->peak(npu));
    }
    json.emplace_back("local_memory_peak_bytes", peak);
  }
  command::print_json(out, json);
  return {};
}

command::Command add_astra(CLI::App& app) {
  auto options = std::make_shared<AstraCommandOptions>();
  CLI::App* words = command::add_command(
      app, {"astra", command::kPredicting,
            "what ASTRA-sim's analytical binaries answer, from the same files",
            "tombolo astra --job examples/astra-sim/gpt-1t.toml --system-configuration "
            "examples/astra-sim/system.json --network-configuration examples/astra-sim/gpt-1t.yml "
            "--summary"});
  command::heading(words, command::kGoesIn);
  words
      ->add_option("--workload-configuration", options->workload,
                   "of Chakra traces, PREFIX.RANK.et")
      ->type_name("PREFIX");
  words
      ->add_option("--job", options->job,
                   "job (TOML) or Plan (JSON), simulated without files; in place of "
                   "--workload-configuration")
      ->type_name("FILE");
  command::suggestions(
      words->add_option("--granularity", options->granularity, "of a job's computations"),
      {"layer", "stage"});
  words
      ->add_option("--retarget", options->retarget,
                   "take the traces, as many as there are, for those of that many ranks, with "
                   "more or fewer data-parallel replicas")
      ->type_name("RANKS");
  words
      ->add_option("--data-groups", options->data_groups,
                   "--retarget: names of all groups that join replicas; left out: found")
      ->type_name("NAME,...")
      ->delimiter(',');
  words->add_flag("--remote-parameters", options->remote_parameters,
                  "of a job with ZeRO 3: its shards live in remote memory");
  words->add_flag("--spmd", options->spmd, "PREFIX.0.et stands for all ranks");
  words->add_option("--system-configuration", options->system, "system.json")->type_name("FILE");
  words->add_option("--network-configuration", options->network, "network.yml")->type_name("FILE");
  words
      ->add_option("--remote-memory-configuration", options->remote_memory,
                   "remote_memory.json; left out: there is none")
      ->type_name("FILE");
  words->add_option("--comm-group-configuration", options->comm_groups, "JSON, group to ranks")
      ->type_name("FILE");
  command::heading(words, command::kPredicted);
  command::suggestions(words->add_option("--law", options->law, "of the network"),
                       {"analytical", "congestion", "fluid"});
  command::suggestions(
      words->add_option("--collapse", options->collapse,
                        "off: simulate every rank, even where one could stand for several"),
      {"on", "off"});
  command::suggestions(
      words
          ->add_option("--groups", options->groups,
                       "of ranks that differ in several dimensions: one ring, as ASTRA-sim, or "
                       "a hierarchy of them; left out: hierarchical with --job, else ring")
          ->default_str(""),
      {"ring", "hierarchical"});
  words->add_option("--num-queues-per-dim", options->queues, "queues per dimension");
  words->add_option("--compute-scale", options->compute_scale, "as ASTRA-sim: 1");
  words->add_option("--comm-scale", options->comm_scale, "as ASTRA-sim: 1");
  words->add_option("--injection-scale", options->injection_scale, "of the endpoint delay");
  command::suggestions(
      words->add_option("--rendezvous-protocol", options->rendezvous, "as ASTRA-sim: false")
          ->default_str("false"),
      {"false"});
  words->add_option("--logging-configuration", options->logging, "taken and ignored")
      ->type_name("FILE");
  words->add_option("--logging-folder", options->logging_folder, "taken and ignored")
      ->type_name("FOLDER");
  command::heading(words, "A sweep");
  words
      ->add_option("--set", options->set,
                   "network.KEY or system.KEY=VALUE,VALUE,...; repeated: the grid")
      ->type_name("KEY=VALUES");
  words->add_option("--threads,--jobs", options->threads, "threads of a sweep; 0: all cores");
  words->add_option("--csv", options->csv, "of a sweep: for its rows")->type_name("FILE");
  command::heading(words, command::kComesOut);
  words->add_flag("--summary", options->summary,
                  "after the result lines: exposed time by cause, use of the dimensions");
  words->add_flag("--per-npu", options->per_npu,
                  "when each NPU finishes, with --json; its result lines, of a job of over 1,024");
  words
      ->add_option("--trace", options->trace,
                   "Trace to write, for tombolo report and tombolo convert --to perfetto")
      ->type_name("FILE");
  command::add_report(words, options->report, "a picture of the run");
  words->add_option("--trace-ranks", options->trace_ranks, "how many ranks these two show")
      ->check(CLI::Range(1, 1 << 24));
  command::add_json(words, options->json);
  return {words, [options](std::ostream& out) { return astra(*options, out); }};
}

}  // namespace tombolo::predict_commands
