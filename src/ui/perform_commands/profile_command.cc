#include <CLI/CLI.hpp>
#include <iostream>

#include "base/clock.h"
#include "base/file.h"
#include "perform/run/launcher.h"
#include "perform/run/profile.h"
#include "predict/cost/price_plan.h"
#include "spec/plan/hardware.h"
#include "ui/command/answer.h"
#include "ui/command/input.h"
#include "ui/command/words.h"
#include "ui/perform_commands/perform_commands.h"

namespace tombolo::perform_commands {

Status profile(const ProfileOptions& options, std::ostream& out) {
  const plan::Job job = TRY(command::load_job(options.in));
  const plan::Plan plan = TRY(cost::make_plan(job));
  TRY(run::check_performable(plan));
  std::cerr << fmt::format("measuring {} stages at once for {}, then the links\n",
                           plan.stages.size(), brief(options.time));
  SystemClock clock;
  const plan::Hardware hardware =
      TRY(run::profile(plan,
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
  command::heading(words, command::kPerformed);
  command::add_time(words, "--seconds", options->time, "of timing per stage", 100_ms, 3600_s);
  command::add_worker(words, options->worker);
  command::heading(words, command::kComesOut);
  words->add_option("--out", options->out, "hardware file to write")->type_name("FILE");
  command::add_json(words, options->json);
  return {words, [options](std::ostream& out) { return profile(*options, out); }};
}

}  // namespace tombolo::perform_commands
