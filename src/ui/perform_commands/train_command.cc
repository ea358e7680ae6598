#include <unistd.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <set>

#include "base/clock.h"
#include "base/file.h"
#include "base/stop_signals.h"
#include "perform/run/launcher.h"
#include "perform/run/supervisor.h"
#include "perform/run/worker_placement.h"
#include "perform/weights/weight_folder.h"
#include "spec/plan/adaptive_batch.h"
#include "spec/plan/plan_file.h"
#include "spec/trace/compare.h"
#include "spec/trace/machine_words.h"
#include "spec/trace/trace_file.h"
#include "steer/tune/tuning_decisions.h"
#include "ui/command/answer.h"
#include "ui/command/decisions_json.h"
#include "ui/command/input.h"
#include "ui/command/words.h"
#include "ui/perform_commands/launched.h"
#include "ui/perform_commands/perform_commands.h"
#include "ui/perform_commands/progress_line.h"
#include "ui/perform_commands/prompt_gaps.h"
#include "ui/perform_commands/step_board.h"
#include "ui/perform_commands/watched_run.h"

namespace tombolo::perform_commands {
namespace {

Value or_null(const std::optional<double>& number) { return number ? Value(*number) : Value(); }

// How long ranks waited for gradients in an iteration, computing nothing: means over ranks.
struct Exposed {
  SimDuration predicted;
  SimDuration measured;

  Exposed(const trace::Trace& prediction, const trace::Trace& measurement)
      : predicted(mean(prediction)), measured(mean(measurement)) {}

  // Of a rank in one of the iterations that make the iteration's time.
  static SimDuration mean(const trace::Trace& trace) {
    std::set<int64_t> counting;
    for (const trace::IterationTime& time : trace::counting(trace::warm_iterations(trace)))
      counting.insert(time.iteration);
    SimDuration sum;
    int64_t count = 0;
    for (const trace::RankParts& row : trace::breakdown(trace).rows) {
      if (!counting.contains(row.iteration)) continue;
      sum += row.exposed_exchange;
      ++count;
    }
    return {count > 0 ? sum.ns / count : 0};
  }
};

bool density_changes(const plan::Plan& plan) {
  return plan.exchange && plan.exchange->density_changes() && plan.replicas_lie_apart();
}

template <class Decision>
void print_newest(std::ostream& out, const std::vector<Decision>& changes) {
  constexpr size_t kShown = 5;
  for (size_t i = changes.size() - std::min(kShown, changes.size()); i < changes.size(); ++i)
    out << "  " << tune::to_line(changes[i]) << "\n";
}

void print_density(std::ostream& out, const plan::Plan& plan, const observe::RunSummary& summary) {
  if (!density_changes(plan)) return;
  const auto& changes = summary.density_decisions;
  out << fmt::format("density: {:g} at first", plan.exchange->density_in_use());
  if (changes.empty()) {
    out << ", never changed\n";
    return;
  }
  out << fmt::format(", {:g} at last, {} change{}\n", changes.back().density,
                     summary.density_changed, summary.density_changed == 1 ? "" : "s");
  print_newest(out, changes);
}

void print_batch(std::ostream& out, const plan::Plan& plan, const observe::RunSummary& summary) {
  if (!plan.batch_changes()) return;
  const auto& changes = summary.batch_decisions;
  out << fmt::format("microbatches of each pipeline: {} at first",
                     plan::to_text(plan::microbatches_of_all(plan)));
  if (changes.empty()) {
    out << ", never changed\n";
    return;
  }
  out << fmt::format(", {} at last, {} change{}\n", plan::to_text(changes.back().microbatches),
                     summary.batch_changed, summary.batch_changed == 1 ? "" : "s");
  print_newest(out, changes);
  out << "  the prediction above is of the first; tombolo simulate --iterations predicts changes\n";
}

void print_text(std::ostream& out, const plan::Plan& plan, const observe::RunSummary& summary,
                const trace::Comparison& comparison, const Exposed& exposed,
                const std::string& predicted_path) {
  const trace::Provenance provenance = summary.trace.header.provenance;
  out << command::iteration_line(trace::Provenance::kPredicted,
                                 seconds(comparison.predicted_iteration),
                                 fmt::format("stage times: {}", to_name(plan.cost_source)));
  out << command::iteration_line(
      provenance, seconds(comparison.measured_iteration),
      fmt::format("median of {}; the prediction is off by {}{}", comparison.measured_iterations,
                  command::percent(comparison.iteration_error),
                  command::scale_note(summary.trace.header)));
  if (exposed.predicted.ns > 0 || exposed.measured.ns > 0) {
    out << fmt::format("  waiting for the gradient all-reduce: {} predicted, {} {}\n",
                       brief(seconds(exposed.predicted)), brief(seconds(exposed.measured)),
                       to_name(provenance));
  }
  if (const auto use = prompt_use(summary.trace)) out << to_line(*use, provenance) << "\n";
  std::string machine = trace::machine_words(summary.trace).line;
  if (machine.empty()) machine = summary.machine.note();
  if (!machine.empty()) out << machine << "\n";
  if (summary.first_loss && summary.final_loss) {
    out << fmt::format("loss: first {:.4f}, last {:.4f} nats per token", *summary.first_loss,
                       *summary.final_loss);
    if (summary.evaluation_loss) {
      out << fmt::format("; held-out text {:.4f}", *summary.evaluation_loss);
    }
    out << "\n";
  }
  out << fmt::format("{} steps, ", summary.steps);
  if (summary.tokens_per_s) out << fmt::format("{:.0f} tokens/s, ", *summary.tokens_per_s);
  out << fmt::format("seed {}\n", plan.run.seed);
  print_density(out, plan, summary);
  print_batch(out, plan, summary);
  if (summary.restarts > 0) {
    out << fmt::format("restarted {} time{} after a worker was lost\n", summary.restarts,
                       summary.restarts == 1 ? "" : "s");
  }
  if (!summary.checkpoint.empty()) out << "checkpoint: " << summary.checkpoint << "\n";
  out << "traces: " << predicted_path << " " << summary.trace_path << "\n";
}

// Of the layers that passes began to use, the share that was up to date: the mean of what ranks
// recorded. Left out where updates are never late.
void add_fresh_share(const trace::Trace& trace, Value::Table& answer) {
  double sum = 0;
  int64_t count = 0;
  for (const trace::Record& each : trace.records) {
    if (each.name != "fresh_share") continue;
    sum += each.value;
    ++count;
  }
  if (count > 0) answer.emplace_back("fresh_share", sum / real(count));
}

void print_answer(std::ostream& out, const plan::Plan& plan, const observe::RunSummary& summary,
                  const trace::Comparison& comparison, const Exposed& exposed,
                  const std::string& predicted_path) {
  const trace::MachineWords machine = trace::machine_words(summary.trace);
  Value::Table answer = {{"provenance", std::string(to_name(summary.trace.header.provenance))},
                         {"steps", summary.steps},
                         {"first_loss", or_null(summary.first_loss)},
                         {"final_loss", or_null(summary.final_loss)},
                         {"evaluation_loss", or_null(summary.evaluation_loss)},
                         {"tokens_per_s", or_null(summary.tokens_per_s)},
                         {"iteration_s", seconds(comparison.measured_iteration).value},
                         {"predicted_iteration_s", seconds(comparison.predicted_iteration).value},
                         {"iteration_error", comparison.iteration_error},
                         {"period_s", seconds(comparison.measured_iteration).value},
                         {"exposed_s", seconds(exposed.measured).value},
                         {"predicted_exposed_s", seconds(exposed.predicted).value},
                         {"cost_source", std::string(to_name(plan.cost_source))},
                         {"byte_scale", summary.trace.header.byte_scale},
                         {"machine_busy_share", or_null(machine.busy_share)},
                         {"too_busy", machine.too_busy},
                         {"machine", Value(summary.machine.table())},
                         {"trace", summary.trace_path},
                         {"predicted_trace", predicted_path},
                         {"restarts", int64_t{summary.restarts}},
                         {"checkpoint", summary.checkpoint}};
  add_fresh_share(summary.trace, answer);
  if (density_changes(plan))
    answer.emplace_back(
        "density", command::decisions_json(plan.exchange->density_in_use(), summary.density_changed,
                                           summary.density_decisions));
  if (plan.batch_changes())
    answer.emplace_back("microbatches", command::decisions_json(plan, summary.batch_changed,
                                                                summary.batch_decisions));
  if (const auto use = prompt_use(summary.trace)) answer.emplace_back("prompts", to_value(*use));
  command::print_json(out, answer);
}

// What was asked for. `islands` and `launched`: where and by whom this process was started.
Result<run::LaunchOptions> launch_options(const TrainOptions& options,
                                          const std::optional<cluster::Islands>& islands,
                                          const std::optional<join::LaunchedRank>& launched,
                                          int restarts) {
  run::LaunchOptions launch;
  launch.islands = islands;
  launch.security = {options.credentials, options.plain_tcp};
  if (launched) {
    launch.rendezvous = TRY(rendezvous(options, *launched, islands));
    launch.security = security_of(options, *launched, islands);
  }
  launch.no_inbound = options.no_inbound;
  launch.terms = TRY(terms_of(options));
  launch.output = options.out;
  launch.resume = options.resume;
  launch.restarts = restarts;
  launch.keep_state = options.keep_state;
  launch.worker_program = options.worker;
  launch.control_port = options.port;
  launch.command = command::command_line("train", options.in);
  if (!options.init.empty()) launch.command += " --init " + options.init;
  if (options.resume) launch.command += " --resume";
  launch.version = command::version();
  return launch;
}

double wall_seconds() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

// Also of the ranks that this launcher starts.
Status place_checkpoints(const TrainOptions& options, plan::Plan& plan) {
  if (options.checkpoints.empty()) return {};
  if (!plan.checkpoint) {
    return unusable(
        fmt::format("--checkpoints {}: the job takes no checkpoints", options.checkpoints),
        "[checkpoint] with directory = \"checkpoints\" and every = 10");
  }
  plan.checkpoint->directory = options.checkpoints;
  return {};
}

// Checks what each rank would find out later, separately. A resumed run reads a checkpoint instead.
Status place_weights(const TrainOptions& options, plan::Plan& plan) {
  if (!options.init.empty()) plan.run.init = options.init;
  if (!plan.run.init || options.resume) return {};
  for (size_t rank = 0; rank < plan.ranks.size(); ++rank) {
    const cluster::Device& device = plan.device_of(static_cast<int32_t>(rank));
    if (device.kind != cluster::DeviceKind::kEmulated) continue;
    return unusable(fmt::format("--init {}: device = \"{}\" computes nothing, and has no weights",
                                *plan.run.init, device.name),
                    "device = \"cpu\", or a run without --init");
  }
  const std::string doing = "reading the weights of --init";
  const auto folder = TRY(during(weights::WeightFolder::open(*plan.run.init), doing));
  return during(folder.check(plan.model), doing);
}

void add_rendezvous_words(CLI::App* words, TrainOptions& options) {
  command::heading(words, command::kAcrossHosts);
  words
      ->add_option("--rendezvous", options.rendezvous,
                   "where ranks started by mpirun, torchrun or srun meet")
      ->type_name("HOST:PORT");
  words
      ->add_option("--listen", options.listen,
                   "of this host that such ranks listen on, where that is not the one others "
                   "call (0.0.0.0: all)")
      ->type_name("ADDRESS");
  words
      ->add_option("--advertise", options.advertise,
                   "at which others call this rank: behind address translation")
      ->type_name("HOST[:PORT]");
  words
      ->add_option("--ports", options.ports,
                   "that such ranks listen on, for a firewall; left out: any")
      ->type_name("FIRST-LAST");
  words->add_option("--port", options.port, "of the launcher, on this host; 0: any");
  command::add_time(words, "--join-timeout", options.join_timeout, "for all these to come", 1_s,
                    86'400_s);
  words->add_flag("--no-inbound", options.no_inbound,
                  "no rank can call this rank (of all that are started here): it calls, "
                  "or its links go through the coordinator");
  command::add_credentials(words, options.credentials, options.plain_tcp);
}

void add_recovery_words(CLI::App* words, TrainOptions& options) {
  command::heading(words, "After failures");
  words
      ->add_option("--restarts", options.restarts,
                   "how often to continue from one step when a worker or the launcher was lost; "
                   "left out: 3, or 0 under mpirun, torchrun or srun, or with RANK")
      ->check(CLI::Range(0, 1'000'000));
  CLI::Option* spare =
      words->add_flag("--spare", options.spare,
                      "wait at the rendezvous to replace a rank that was lost and does not come "
                      "again");
  words
      ->add_option("--datacenter", options.datacenter,
                   "of this host: the spare replaces ranks of this datacenter; left out: any")
      ->type_name("DATACENTER")
      ->needs(spare);
  words
      ->add_option("--grace", options.grace,
                   "how long a rank or a path may be silent before the run continues without it")
      ->type_name("TIME");
  words
      ->add_option("--lease", options.lease,
                   "the shortest lease of a rank, where silence is to be noticed sooner; left "
                   "out: as long as --grace")
      ->type_name("TIME");
  words->add_flag_callback(
      "--keep-state", [&options] { options.keep_state = true; },
      "workers copy their state at every iteration, so that no more than one is repeated (default "
      "where every stage has replicas)");
  words->add_flag_callback(
      "--no-keep-state", [&options] { options.keep_state = false; }, "they do not");
}

void add_prompt_words(CLI::App* words, TrainOptions& options) {
  command::heading(words, "Prompts in the gaps");
  words
      ->add_option("--prompt-weights", options.prompt_weights,
                   "ranks answer prompts with this model while they wait for others")
      ->type_name("FOLDER");
  words
      ->add_option("--prompt-socket", options.prompt_socket,
                   "where `tombolo prefill --run` finds it; left out: OUT/prompts.socket")
      ->type_name("FILE");
  words
      ->add_option(
          "--prompt-ranks,--prompt-rank", options.prompt_ranks,
          "which ranks, such as 1,3; several, of one datacenter, share the model's layers; "
          "once for each pipeline of such ranks")
      ->type_name("RANK,...")
      ->allow_extra_args(false);
  words
      ->add_option("--prompt-memory", options.prompt_memory,
                   "keys and values of all prompts, on each of these ranks")
      ->type_name("SIZE");
  words
      ->add_option(
          "--prompt-piece", options.prompt_piece,
          "the longest layer in a wait that the Plan does not predict: training may have to wait "
          "that long for one")
      ->type_name("TIME");
  words
      ->add_option("--prompt-load", options.prompt_load,
                   "emulated ranks: all of them wait, in their gaps, for as long as layers of "
                   "prompts of that many tokens to [prefill].model would take")
      ->type_name("TOKENS")
      ->default_str("")
      ->check(CLI::PositiveNumber);
  command::heading(words, command::kPerformed);
  command::add_worker(words, options.worker);
}

}  // namespace

Status train(const TrainOptions& options, std::ostream& out) {
  std::optional<join::RunPrompts> prompts = TRY(place_prompts(options));
  if (options.spare) return wait_as_spare(options);
  const std::optional<join::LaunchedRank> launched = TRY(find_launched_rank());
  // An external launcher restarts what it started: then no restarts here, unless requested.
  const int restarts = options.restarts.value_or(launched ? 0 : 3);
  if (launched && launched->rank > 0)
    return fail(restarts > 0 ? return_as(options, *launched) : join_run(options, *launched));
  // From here on this is the launcher, and may be killed.
  const run::Life life = restarts > 0 ? run::supervise(restarts) : run::Life{};
  plan::Plan plan = TRY(command::load_plan(options.in));
  TRY(run::check_performable(plan));
  if (launched) TRY(check_size(plan, *launched));
  TRY(place_checkpoints(options, plan));
  TRY(place_weights(options, plan));
  if (prompts) TRY(place_gaps(options, plan, *prompts));
  const auto islands = TRY(cluster::islands_of_environment());
  const std::string predicted_path = options.out + "/predicted.jsonl";
  const sim::Simulation prediction =
      TRY(command::predict(plan, {}, command::command_line("simulate", options.in)));
  SystemClock clock;
  ProgressLine line(std::cerr, isatty(STDERR_FILENO) != 0, clock);
  line.note(fmt::format("predicted iteration: {} (stage times: {})",
                        brief(seconds(prediction.iteration)), to_name(plan.cost_source)));
  if (islands) {
    if (const std::string note = run::note_on_nodes(plan); !note.empty()) line.note(note);
  }

  // A launcher may well send several signals, when it wants one thing.
  StopSignals signals(launched ? SecondSignal::kIgnored : SecondSignal::kEnds);
  run::LaunchOptions launch = TRY(launch_options(options, islands, launched, restarts));
  if (launched) {
    line.note(fmt::format("rank 0 of {}, started by {}, waits for the others at {}",
                          launched->ranks, launched->launcher, launch.rendezvous->at.text()));
  }
  if (launch.security.plain_tcp) {
    line.note(
        "--plain-tcp: model, data and token travel in clear text; any host on the path can "
        "read and change them");
  }
  launch.all_ended = life.number > 0 && !launched;
  std::optional<StepBoard> board;
  launch.on_progress = [&](const observe::Progress& progress) {
    line.show(progress);
    if (board) board->show(progress);
    if (life.step) life.step->store(progress.step);
  };
  launch.log = [](const std::string& text) { std::cerr << text + "\n"; };  // in one piece
  launch.on_note = [&](const std::string& text) { line.note(text); };
  launch.stop = &signals.flag();
  observe::Telemetry telemetry(plan, clock);
  launch.telemetry = &telemetry;
  const auto watched = TRY(WatchedRun::open(options.metrics, telemetry));
  // The prediction is on disk before anything has happened, and after all that could be refused.
  launch.on_begin = [&]() -> Status {
    TRY(plan::write_plan(options.out + "/plan.json", plan));
    TRY(trace::write_trace(predicted_path, prediction.trace));
    TRY(watched->announce(options.out));
    if (!options.board.empty()) {
      const auto note = [&](const std::string& text) { line.note(text); };
      board.emplace(TRY(StepBoard::open(options.board, plan, wall_seconds, note)));
    }
    line.note(fmt::format("metrics: http://{}/metrics; tombolo status --out {}",
                          watched->address().text(), options.out));
    return {};
  };
  run::allow_many_files();
  const Result<observe::RunSummary> run = run::launch(plan, launch, clock);
  if (board) board->finish(run ? &*run : nullptr);
  line.finish();
  if (!run) return fail(run.error());

  const observe::RunSummary& summary = *run;
  const trace::Comparison comparison = TRY(trace::compare(prediction.trace, summary.trace));
  const Exposed exposed(prediction.trace, summary.trace);
  if (!options.json) {
    print_text(out, plan, summary, comparison, exposed, predicted_path);
    return {};
  }
  print_answer(out, plan, summary, comparison, exposed, predicted_path);
  return {};
}

command::Command add_train(CLI::App& app) {
  auto options = std::make_shared<TrainOptions>();
  CLI::App* words =
      command::add_command(app, {"train", command::kTraining, "predict a job, then perform it",
                                 "tombolo train examples/emulated-row/job.toml --out run"});
  command::heading(words, command::kGoesIn);
  CLI::Option* job =
      words->add_option("job", options->in.input, "job file (TOML) or Plan (JSON); - is stdin")
          ->type_name("JOB");
  command::add_replacements(words, options->in);
  command::add_data(words, options->in);
  words->add_option("--steps", options->in.steps, "replaces [run].steps")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 40));
  words
      ->add_option("--init", options->init,
                   "config.json and safetensors whose weights the run begins with")
      ->type_name("FOLDER");
  words->add_flag("--resume", options->resume, "continue from the last checkpoint");
  command::heading(words, command::kComesOut);
  words->add_option("--out", options->out, "for the Plan and the Traces")->type_name("FOLDER");
  words
      ->add_option("--board", options->board,
                   "for what dashboards read of each step: TensorBoard's event files, "
                   "steps.csv and steps.jsonl")
      ->type_name("FOLDER");
  words
      ->add_option("--checkpoints", options->checkpoints,
                   "for this host's checkpoints, instead of the job's")
      ->type_name("FOLDER");
  words
      ->add_option("--metrics", options->metrics,
                   "where /metrics is served for Prometheus; port 0: any")
      ->type_name("ADDRESS:PORT");
  words->add_flag("--capabilities", options->capabilities,
                  "what can be planned and what can be run");
  command::add_json(words, options->json);
  add_rendezvous_words(words, *options);
  add_recovery_words(words, *options);
  add_prompt_words(words, *options);
  words->callback([options, job] {
    if (!options->capabilities && job->count() == 0) throw CLI::RequiredError("job");
  });
  return {words,
          [options](std::ostream& out) -> Status {
            if (!options->capabilities) return train(*options, out);
            out << capabilities();
            return {};
          },
          true};
}

}  // namespace tombolo::perform_commands
