#include <unistd.h>

#include <filesystem>
#include <iostream>

#include "base/clock.h"
#include "base/file.h"
#include "cli/answer.h"
#include "cli/commands.h"
#include "cli/input.h"
#include "cli/launched.h"
#include "cli/progress.h"
#include "cli/returning.h"
#include "cli/supervisor.h"
#include "cli/watched_run.h"
#include "plan/plan_file.h"
#include "runtime/launcher.h"
#include "runtime/stop_signals.h"
#include "trace/compare.h"
#include "trace/trace_file.h"

namespace tombolo::cli {
namespace {

Value or_null(const std::optional<double>& number) { return number ? Value(*number) : Value(); }

void print_text(std::ostream& out, const plan::Plan& plan, const runtime::RunSummary& summary,
                const trace::Comparison& comparison, const std::string& predicted_path) {
  const trace::Provenance provenance = summary.trace.header.provenance;
  out << iteration_line(trace::Provenance::kPredicted, seconds(comparison.predicted_iteration),
                        fmt::format("stage times: {}", to_name(plan.cost_source)));
  out << iteration_line(
      provenance, seconds(comparison.measured_iteration),
      fmt::format("median of {}; the prediction is off by {}{}", comparison.measured_iterations,
                  percent(comparison.iteration_error), scale_note(summary.trace.header)));
  if (summary.machine.worth_a_line()) out << summary.machine.brief() << "\n";
  if (summary.first_loss && summary.final_loss) {
    out << fmt::format("loss: first {:.4f}, last {:.4f} nats per token", *summary.first_loss,
                       *summary.final_loss);
    if (summary.evaluation_loss) {
      out << fmt::format("; held-out text {:.4f}", *summary.evaluation_loss);
    }
    out << "\n";
  }
  out << fmt::format("{} steps, {:.0f} tokens/s, seed {}\n", summary.steps, summary.tokens_per_s,
                     plan.run.seed);
  if (summary.restarts > 0) {
    out << fmt::format("restarted {} time{} after a worker was lost\n", summary.restarts,
                       summary.restarts == 1 ? "" : "s");
  }
  if (!summary.checkpoint.empty()) out << "checkpoint: " << summary.checkpoint << "\n";
  out << "traces: " << predicted_path << " " << summary.trace_path << "\n";
}

}  // namespace

Status train(const TrainOptions& options, std::ostream& out) {
  if (options.spare) return wait_as_spare(options);
  const std::optional<runtime::LaunchedRank> launched = TRY(find_launched_rank());
  // Launchers start again what they started, unless somebody asks for it.
  const int restarts = options.restarts.value_or(launched ? 0 : 3);
  if (launched && launched->rank > 0)
    return fail(restarts > 0 ? return_as(options, *launched) : join_run(options, *launched));
  // From here on this is the launcher, and may be killed.
  const Life life = restarts > 0 ? supervise(restarts) : Life{};
  plan::Plan plan = TRY(load_plan(options.in));
  TRY(runtime::check_performable(plan));
  if (launched) TRY(check_size(plan, *launched));
  const auto islands = TRY(cluster::islands_of_environment());
  TRY(make_directories(options.out));
  const std::string predicted_path = options.out + "/predicted.jsonl";
  TRY(plan::write_plan(options.out + "/plan.json", plan));

  // First the prediction: it is on disk before anything has happened.
  const sim::Simulation prediction = TRY(predict(plan, 1, command_line("simulate", options.in)));
  TRY(trace::write_trace(predicted_path, prediction.trace));
  SystemClock clock;
  ProgressLine line(std::cerr, isatty(STDERR_FILENO) != 0, clock);
  line.note(fmt::format("predicted iteration: {} (stage times: {})",
                        brief(seconds(prediction.iteration)), to_name(plan.cost_source)));

  // A launcher may well send several signals, when it wants one thing.
  runtime::StopSignals signals(launched ? runtime::SecondSignal::kIgnored
                                        : runtime::SecondSignal::kEnds);
  runtime::LaunchOptions launch;
  launch.islands = islands;
  launch.security = {options.credentials, options.plain_tcp};
  if (launched) {
    launch.rendezvous = TRY(rendezvous(options, *launched, islands));
    launch.security = security_of(options, *launched, islands);
    line.note(fmt::format("rank 0 of {}, started by {}, waits for the others at {}",
                          launched->ranks, launched->launcher, launch.rendezvous->at.text()));
  }
  if (launch.security.plain_tcp)
    line.note(
        "--plain-tcp: model, data and token travel in clear text; whoever sits on the way can "
        "read and change them");
  launch.no_inbound = options.no_inbound;
  launch.output = options.out;
  launch.resume = options.resume;
  launch.restarts = restarts;
  launch.keep_state = options.keep_state;
  launch.all_ended = life.number > 0 && !launched;
  launch.worker_program = options.worker;
  launch.control_port = options.port;
  launch.command = command_line("train", options.in) + (options.resume ? " --resume" : "");
  launch.version = version();
  launch.on_progress = [&](const runtime::Progress& progress) {
    line.show(progress);
    if (life.step) life.step->store(progress.step);
  };
  launch.log = [](const std::string& text) { std::cerr << text + "\n"; };  // in one piece
  launch.on_note = [&](const std::string& text) { line.note(text); };
  launch.stop = &signals.flag();
  runtime::Telemetry telemetry(plan, clock);
  launch.telemetry = &telemetry;
  const auto watched = TRY(WatchedRun::begin(options.out, options.metrics, telemetry));
  line.note(fmt::format("metrics: http://{}/metrics; tombolo status --out {}",
                        watched->address().text(), options.out));
  const Result<runtime::RunSummary> run = runtime::launch(plan, launch, clock);
  line.finish();
  if (!run) return fail(run.error());

  const runtime::RunSummary& summary = *run;
  // One iteration alone is its own measurement; with more, the first warms up.
  const int64_t warmup = trace::iteration_times(summary.trace).size() > 1 ? 1 : 0;
  const trace::Comparison comparison =
      TRY(trace::compare(prediction.trace, summary.trace, {.warmup = warmup}));
  if (!options.json) {
    print_text(out, plan, summary, comparison, predicted_path);
    return {};
  }
  print_json(out, {{"provenance", std::string(to_name(summary.trace.header.provenance))},
                   {"steps", summary.steps},
                   {"first_loss", or_null(summary.first_loss)},
                   {"final_loss", or_null(summary.final_loss)},
                   {"evaluation_loss", or_null(summary.evaluation_loss)},
                   {"tokens_per_s", summary.tokens_per_s},
                   {"iteration_s", seconds(comparison.measured_iteration).value},
                   {"predicted_iteration_s", seconds(comparison.predicted_iteration).value},
                   {"iteration_error", comparison.iteration_error},
                   {"cost_source", std::string(to_name(plan.cost_source))},
                   {"byte_scale", summary.trace.header.byte_scale},
                   {"machine", Value(summary.machine.table())},
                   {"trace", summary.trace_path},
                   {"predicted_trace", predicted_path},
                   {"restarts", int64_t{summary.restarts}},
                   {"checkpoint", summary.checkpoint}});
  return {};
}

}  // namespace tombolo::cli
