#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <iostream>
#include <thread>

#include "base/clock.h"
#include "base/cpu_limit.h"
#include "base/file.h"
#include "base/text_table.h"
#include "perform/profile/profile.h"
#include "perform/run/launcher.h"
#include "predict/cost/price_plan.h"
#include "predict/strand/layer_strands.h"
#include "predict/strand/profile_of_samples.h"
#include "spec/plan/hardware.h"
#include "ui/command/answer.h"
#include "ui/command/input.h"
#include "ui/command/words.h"
#include "ui/perform_commands/perform_commands.h"

namespace tombolo::perform_commands {
namespace {

using strand::Measured;
using strand::MeasuredOperator;
using strand::MeasuredOverlap;
using strand::MeasuredPair;

std::string microseconds(double us) { return fmt::format("{:.1f} us", us); }

std::string interval(const Measured& measured) {
  return fmt::format("{:.1f} to {:.1f}", measured.low, measured.high);
}

void print_overlap(std::ostream& out, const MeasuredOverlap& overlap) {
  TextTable alone({text_column("operator"), text_column("class"), "alone", "19 cases of 20"});
  for (const MeasuredOperator& each : overlap.operators)
    alone.row({each.name, each.kind, microseconds(each.alone.median), interval(each.alone)});
  out << alone.text() << "\n";
  TextTable pairs({text_column("at the same time"), text_column("classes"), "one by one", "both",
                   "saved", "19 cases of 20", "null up to", text_column()});
  for (const MeasuredPair& each : overlap.pairs) {
    pairs.row({each.first + ", " + each.second, each.first_class + ", " + each.second_class,
               microseconds(each.apart), microseconds(each.beside), microseconds(each.saved.median),
               interval(each.saved), microseconds(each.null_most()),
               each.measurable() ? "" : "not measurable here"});
  }
  out << pairs.text();
}

Value::Array interval_json(const Measured& measured) { return {measured.low, measured.high}; }

Value::Table to_json(const MeasuredOverlap& overlap) {
  Value::Array operators, pairs;
  for (const MeasuredOperator& each : overlap.operators) {
    operators.push_back(Value::Table{{"name", each.name},
                                     {"class", each.kind},
                                     {"us", each.alone.median},
                                     {"us_between", interval_json(each.alone)},
                                     {"spread", each.alone.spread}});
  }
  for (const MeasuredPair& each : overlap.pairs) {
    pairs.push_back(Value::Table{{"operators", Value::Array{each.first, each.second}},
                                 {"classes", Value::Array{each.first_class, each.second_class}},
                                 {"apart_us", each.apart},
                                 {"beside_us", each.beside},
                                 {"saved_us", each.saved.median},
                                 {"saved_us_between", interval_json(each.saved)},
                                 {"null_us_between", interval_json(each.null)},
                                 {"measurable", each.measurable()}});
  }
  return {{"provenance", "measured"},
          {"repeats", overlap.repeats},
          {"operators", std::move(operators)},
          {"pairs", std::move(pairs)}};
}

Status profile_overlap(const ProfileOptions& options, const plan::Plan& plan, std::ostream& out) {
  TRY(profile::check_overlap(plan));
  const int64_t shards = plan.parallelism.shards_at(0);
  std::cerr << fmt::format(
      "measuring operators of a layer on {} shards, alone and two at the same time, for {} or "
      "more\n",
      shards, brief(options.time));
  const double cores = std::min<double>(cpu_limit(), std::thread::hardware_concurrency());
  if (2 * real(shards) > cores) {
    std::cerr << fmt::format(
        "note: {} shards and their transfers are {} threads, which share {:.3g} cores\n", shards,
        2 * shards, cores);
  }
  const plan::OverlapSamples samples = TRY(
      profile::profile_overlap(plan, {.budget = options.time, .worker_program = options.worker}));
  const strand::LayerStrands layer = strand::layer_strands(
      {.tensor = true, .sequence_parallel = plan.parallelism.sequence_parallel}, {});
  const MeasuredOverlap overlap =
      TRY(strand::measured_overlap(samples, layer.forward, layer.backward));
  const strand::Profile profile = overlap.profile();
  const std::string machine = profile::machine_name();
  TRY(write_file(options.out, fmt::format("# Measured by: {}\n# on {}.\n{}",
                                          command::command_line("profile --overlap", options.in),
                                          machine, strand::to_csv(profile))));
  if (options.json) {
    Value::Table json = to_json(overlap);
    json.emplace_back("machine", machine);
    json.emplace_back("overlap_profile", options.out);
    command::print_json(out, std::move(json));
    return {};
  }
  out << fmt::format("measured on {}: a layer of {} on {} shards, {} repeats by turns; medians\n\n",
                     machine, plan.model.name.empty() ? "the model" : plan.model.name, shards,
                     overlap.repeats);
  print_overlap(out, overlap);
  out << fmt::format(
      "\nnull: the same one by one, and once more; what is not measurable has no line in the file\n"
      "overlap profile: {}, {} operators and {} of {} pairs\n",
      options.out, overlap.operators.size(), profile.rows.size() - overlap.operators.size(),
      overlap.pairs.size());
  return {};
}

}  // namespace

Status profile(const ProfileOptions& options, std::ostream& out) {
  const plan::Job job = TRY(command::load_job(options.in));
  const plan::Plan plan = TRY(cost::make_plan(job));
  const std::string folder = std::filesystem::path(options.out).parent_path().string();
  TRY(check_writable(folder.empty() ? "." : folder));  // before minutes are spent
  if (options.overlap) return profile_overlap(options, plan, out);
  TRY(run::check_performable(plan));
  std::cerr << fmt::format("measuring {} stages at once for {}, then the links\n",
                           plan.stages.size(), brief(options.time));
  SystemClock clock;
  const plan::Hardware hardware =
      TRY(profile::profile_hardware(plan,
                                    {.budget = options.time,
                                     .worker_program = options.worker,
                                     .command = command::command_line("profile", options.in)},
                                    clock));
  TRY(write_file(options.out, plan::to_json_text(hardware)));
  if (options.json) {
    out << plan::to_json_text(hardware);
    return {};
  }
  out << fmt::format("measured on {}\n", hardware.machine);
  for (size_t s = 0; s < hardware.stages.size(); ++s) {
    const plan::MeasuredStage& stage = hardware.stages[s];
    out << fmt::format(
        "  stage {}: forward {} (+- {}), backward {} (+- {}), of it weights {}, update {}; {} "
        "microbatches\n",
        s, brief(stage.cost.forward), brief(0.5 * stage.forward_spread), brief(stage.cost.backward),
        brief(0.5 * stage.backward_spread), brief(stage.cost.backward_weight.value_or(0_s)),
        brief(stage.cost.update), stage.samples);
  }
  for (const plan::MeasuredLink& link : hardware.links) {
    out << fmt::format("  link {} - {}: {} one way, {} per flow\n", link.between[0],
                       link.between[1], brief(link.one_way_latency), brief(link.rate));
  }
  out << "hardware file: " << options.out << "\n";
  return {};
}

command::Command add_profile(CLI::App& app) {
  auto options = std::make_shared<ProfileOptions>();
  CLI::App* words = command::add_command(
      app,
      {"profile", command::kTraining, "measure this machine: every stage of a job, and its links",
       "tombolo profile examples/two-datacenters/job.toml --out hardware.json"});
  command::add_input(words, options->in);
  command::add_data(words, options->in);
  command::heading(words, "What is measured");
  words->add_flag("--overlap", options->overlap,
                  "operators of a layer on its shards, alone and two at the same time, for strand "
                  "--profile, instead of stages and links");
  command::heading(words, command::kPerformed);
  command::add_time(words, "--seconds", options->time,
                    "of timing per stage; with --overlap of all, and 15 repeats at least", 100_ms,
                    3600_s);
  command::add_worker(words, options->worker);
  command::heading(words, command::kComesOut);
  CLI::Option* file = words
                          ->add_option("--out", options->out,
                                       "hardware file to write; with --overlap the overlap "
                                       "profile, overlap.csv where left out")
                          ->type_name("FILE");
  command::add_json(words, options->json);
  return {words, [options, file](std::ostream& out) {
            if (options->overlap && file->empty()) options->out = "overlap.csv";
            return profile(*options, out);
          }};
}

}  // namespace tombolo::perform_commands
