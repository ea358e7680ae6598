#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <optional>

#include "predict/cost/worth.h"
#include "predict/ledger/plan_ledger.h"
#include "predict/sim/simulate.h"
#include "predict/sim/trace_check.h"
#include "spec/cluster/tight_windows.h"
#include "spec/plan/plan_file.h"
#include "spec/schedule/ascii.h"
#include "spec/schedule/policy.h"
#include "spec/trace/trace_file.h"
#include "ui/command/answer.h"
#include "ui/command/input.h"
#include "ui/command/output_files.h"
#include "ui/command/stages.h"
#include "ui/command/words.h"
#include "ui/predict_commands/policy_choice.h"
#include "ui/predict_commands/predict_commands.h"
#include "ui/predict_commands/simulate_over_time.h"
#include "ui/predict_commands/simulate_prefill.h"
#include "ui/report/answer_values.h"

namespace tombolo::predict_commands {
namespace {

Value breakdown_json(const trace::Parts& parts) {
  return Value::Table{{"compute_ns", parts.compute.ns},
                      {"exposed_comm_ns", parts.exposed_communication.ns},
                      // Nothing is charged for local or remote memory by today's laws.
                      {"exposed_local_memory_ns", int64_t{0}},
                      {"exposed_remote_memory_ns", int64_t{0}},
                      {"idle_ns", parts.idle.ns}};
}

// Totals are those of all simulated iterations, of which there may be more than were asked for.
void print_wan(std::ostream& out, const sim::Simulation& simulation) {
  const std::string of = simulation.iterations == 1
                             ? std::string()
                             : fmt::format(" in {} iterations", simulation.iterations);
  for (const trace::WanUse& use : simulation.breakdown.wan) {
    out << fmt::format("  {} -> {}: {} messages", use.from, use.to, use.messages);
    if (use.bytes > 0) out << fmt::format(", {}", brief(Bytes{static_cast<double>(use.bytes)}));
    out << of;
    if (use.bytes > 0) out << fmt::format(" ({} on average)", brief(use.rate));
    out << fmt::format(", busy {:.0f} %\n", 100 * use.busy_fraction);
  }
}

// The share of the time while data crosses from one to the other, and back, together: above 1 both at once.
double busy_both_ways(const std::vector<trace::WanUse>& wan, const cluster::WanLink& link) {
  double sum = 0;
  for (const trace::WanUse& use : wan) {
    if (link.joins(use.from, use.to)) sum += use.busy_fraction;
  }
  return sum;
}

void print_notes_on_wan(std::ostream& out, const cluster::WanLink& link,
                        const std::vector<trace::WanUse>& wan, const sim::Options& options) {
  if (!link.rate_trace.empty() && options.rates.empty()) {
    out << fmt::format("  note: {} - {}: rate_trace counts with --iterations\n", link.between[0],
                       link.between[1]);
  }
  if (cluster::has_tight_windows(link) && busy_both_ways(wan, link) > 1) {
    out << fmt::format(
        "  note: {} - {}: the windows of {} connections hold {:.2f} of what a node pair carries in "
        "a round trip; "
        "with data in both directions at once transfers may take longer than predicted; 1.5 would "
        "do\n",
        link.between[0], link.between[1], link.connections, cluster::window_share(link));
  }
}

void print_worth(std::ostream& out, const cost::Worth& worth) {
  std::string line;
  const auto add = [&](const std::string& text) { line += (line.empty() ? "" : ", ") + text; };
  if (worth.tokens_per_s) add(report::figure_of(worth.tokens_per_s) + " tokens/s");
  if (worth.mfu) add(fmt::format("MFU {:.1f} %", 100 * *worth.mfu));
  const std::optional<Dollars> cost = worth.cost.total();
  if (cost) add(fmt::format("{} per iteration", brief(*cost)));
  if (worth.cost.egress.value > 0) {
    add(fmt::format("{}{} for WAN traffic", cost ? "of that " : "", brief(worth.cost.egress)));
  }
  if (!line.empty()) out << "  " << line << "\n";
}

bool has_pairs(const plan::Plan& plan) {
  if (plan.given) return !plan.given->pairs.empty();
  return !plan.pairs.empty() && traits_of(plan.parallelism.schedule).has(layout::kPairs);
}

void print_text(std::ostream& out, const plan::Plan& plan, const sim::Simulation& simulation,
                const sim::Options& options) {
  const std::string pipelines =
      plan.replicas() > 1 ? fmt::format(" x {} pipelines", plan.replicas()) : "";
  const bool sharded = plan.devices() > std::ssize(plan.ranks);
  const std::string microbatches =
      command::microbatches_text(plan.microbatches(), plan.parallelism.microbatches_per_replica);
  out << fmt::format("{}: {} stage{}{}{}, {} microbatch{}, schedule {}{}\n", plan.name,
                     plan.stages.size(), plan.stages.size() == 1 ? "" : "s", pipelines,
                     sharded ? fmt::format(" on {} devices", plan.devices()) : "", microbatches,
                     microbatches == "1" ? "" : "es", plan.schedule_name(),
                     has_pairs(plan) ? ", overlapped F&B" : "");
  out << command::iteration_line(trace::Provenance::kPredicted, seconds(simulation.iteration),
                                 fmt::format("stage times: {}", to_name(plan.cost_source)));
  const trace::Parts& sum = simulation.breakdown.sum;
  const auto share = [&](SimDuration part) {
    return sum.total().ns > 0
               ? 100.0 * static_cast<double>(part.ns) / static_cast<double>(sum.total().ns)
               : 0.0;
  };
  out << fmt::format("  ranks compute {:.1f} %, wait for communication {:.1f} %, idle {:.1f} %\n",
                     share(sum.compute), share(sum.exposed_communication), share(sum.idle));
  if (const SimDuration exposed = simulation.breakdown.exposed_exchange; exposed.ns > 0) {
    out << fmt::format(
        "  waiting for the gradient all-reduce: {} of an iteration, the mean over ranks\n",
        brief(seconds(exposed)));
  }
  print_worth(out, cost::worth_of(plan, seconds(simulation.iteration)));
  print_wan(out, simulation);
  if (plan.boundary.value > 0) {  // [stage_times] may stand without a model
    const cost::MemoryPeak peak = cost::memory_peak(plan, simulation.peak_memory);
    out << fmt::format("  peak memory {} of {} on rank {}\n", brief(peak.bytes),
                       brief(peak.capacity), peak.rank);
  }
  for (const cluster::WanLink& link : plan.cluster.wan) {
    print_notes_on_wan(out, link, simulation.breakdown.wan, options);
  }
  if (const std::string note = ledger::note_on_tied_ends(plan); !note.empty()) {
    out << "  note: " << note << "\n";
  }
  out << fmt::format("  seed {}, plan {}, {} events, fingerprint {}\n", plan.run.seed,
                     plan::plan_digest(plan), simulation.events, simulation.fingerprint);
}

void print_check(std::ostream& out, const sim::Check& check) {
  constexpr size_t kShown = 5;
  for (size_t i = 0; i < std::min(kShown, check.resources.size()); ++i) {
    const sim::ResourceUse& use = check.resources[i];
    out << fmt::format("  {}: {:.1f} % of {} used\n", use.name, 100 * use.used_share,
                       brief(use.capacity));
  }
  if (check.resources.size() > kShown) {
    out << fmt::format("  and {} resources used less\n", check.resources.size() - kShown);
  }
  for (const sim::Violation& violation : check.violations) {
    out << fmt::format("  VIOLATION of {}: {}\n", to_name(violation.kind), violation.text);
  }
  if (check.violations.empty()) {
    out << "  checked: capacity, memory, causality, order and bytes hold\n";
  }
}

void add_check(Value::Table& answer, const sim::Check& check) {
  Value::Array resources, violations;
  for (const sim::ResourceUse& use : check.resources) {
    resources.push_back(Value::Table{{"name", use.name},
                                     {"capacity_bytes_per_s", use.capacity.value},
                                     {"carried_bytes", use.carried.value},
                                     {"used_share", use.used_share}});
  }
  for (const sim::Violation& violation : check.violations) {
    violations.push_back(
        Value::Table{{"kind", std::string(to_name(violation.kind))}, {"text", violation.text}});
  }
  answer.emplace_back("resources", resources);
  answer.emplace_back("violations", violations);
}

// What one iteration sends over the WAN, by direction and class.
Value wan_json(const ledger::Ledger& ledger) {
  Value::Array ways;
  for (const ledger::WanFlow& way : ledger.wan()) {
    Value::Table bytes;
    for (const auto& [kind, name] : enum_names(ledger::MessageClass{})) {
      std::string key(name);
      std::replace(key.begin(), key.end(), '-', '_');
      bytes.emplace_back(key, way.by_class[static_cast<size_t>(kind)].value);
    }
    ways.push_back(Value::Table{{"from", way.from}, {"to", way.to}, {"bytes", bytes}});
  }
  return ways;
}

// Keys as in `tombolo sweep`.
void add_worth(Value::Table& answer, const plan::Plan& plan, const cost::Worth& worth) {
  const std::optional<Dollars> cost = worth.cost.total();
  answer.emplace_back("tokens_per_s", worth.tokens_per_s ? Value(*worth.tokens_per_s) : Value());
  answer.emplace_back("mfu", worth.mfu ? Value(*worth.mfu) : Value());
  answer.emplace_back("cost_usd", cost ? Value(cost->value) : Value());
  answer.emplace_back("egress_usd", command::egress_json(plan.cluster, worth.cost.egress));
  answer.emplace_back("wan_per_iteration", wan_json(worth.ledger));
}

Status judge(const std::optional<sim::Check>& check) {
  if (!check || check->violations.empty()) return {};
  return infeasible(fmt::format("the prediction breaks a rule: {}", check->violations[0].text),
                    "reporting it with the job: this should never be");
}

std::string simulate_command_line(const SimulateOptions& options) {
  std::string line = command::command_line("simulate", options.in);
  if (!options.policy.empty()) line += " --policy " + options.policy;
  if (options.no_split) line += " --no-split";
  if (options.prove) line += " --prove";
  if (!options.measured.empty()) line += " --measured " + options.measured;
  if (options.strands) line += " --strands";
  return line;
}

}  // namespace

Status simulate(const SimulateOptions& options, std::ostream& out) {
  const auto begin = std::chrono::steady_clock::now();
  const bool of_best = options.no_split || options.prove || !options.measured.empty();
  if (options.policy != "best" && of_best) {
    return unusable(fmt::format("--policy {}: {} goes with --policy best", options.policy,
                                options.no_split ? "--no-split"
                                : options.prove  ? "--prove"
                                                 : "--measured"),
                    "--policy best");
  }
  if (options.prefill.empty() && (options.prefill_scale != 1 || options.no_suspension ||
                                  options.prefill_batch || !options.prefill_decode.empty())) {
    return unusable("what is said about prefill needs requests", "--prefill FILE.csv");
  }
  const bool as_it_stands = options.policy.empty();
  ChosenPolicy chosen = as_it_stands ? ChosenPolicy{TRY(command::load_plan(options.in)), {}, {}}
                                     : TRY(choose_policy(options));
  if (as_it_stands && options.strands) chosen = TRY(with_strands(options, std::move(chosen.plan)));
  const plan::Plan& plan = chosen.plan;
  sim::Options simulated = TRY(read_over_time(options, plan));
  const bool draws = !options.out.empty() || options.check || (options.ascii && !options.json);
  simulated.alike = draws ? sim::Alike::kDrawn : sim::Alike::kOnce;
  const bool over_time = is_over_time(plan, simulated);
  std::string line = simulate_command_line(options);
  if (over_time) line += fmt::format(" --iterations {}", options.iterations);
  const sim::Simulation simulation = TRY(command::predict(plan, simulated, std::move(line)));
  std::optional<sim::Check> check;
  if (options.check) check = TRY(sim::check_trace(plan, simulation.trace));
  std::optional<prefill_sim::PrefillReport> prefill;
  if (!options.prefill.empty()) prefill = TRY(simulate_prefill(options, plan));
  command::OutputFiles files;
  if (!options.out.empty()) TRY(files.add(options.out, trace::to_json_lines(simulation.trace)));
  TRY(files.add(options.out_plan, plan::to_json_text(plan)));
  TRY(files.commit());
  const std::chrono::duration<double> wall = std::chrono::steady_clock::now() - begin;

  if (!options.json) {
    print_text(out, plan, simulation, simulated);
    if (over_time) print_over_time(out, plan, simulated, simulation);
    print_policy(out, chosen);
    if (check) print_check(out, *check);
    if (prefill) print_prefill(out, plan, *prefill);
    if (options.ascii) {
      const schedule::PipelineShape shape = schedule::shape_of(plan);
      const schedule::Times times = schedule::times_of(plan);
      out << "\n" << schedule::draw_ascii(simulation.trace, {.shape = &shape, .times = &times});
    }
    return judge(check);
  }
  Value::Array peaks;
  for (const Bytes bytes : simulation.peak_memory) peaks.push_back(bytes.value);
  Value::Table answer{
      {"provenance", "predicted"},
      {"iteration_ns", simulation.iteration.ns},
      {"cost_source", std::string(to_name(plan.cost_source))},
      {"breakdown", breakdown_json(simulation.breakdown.sum)},
      {"exposed_exchange_ns", simulation.breakdown.exposed_exchange.ns},
      {"utilization", simulation.breakdown.utilization},
      {"peak_memory_bytes", cost::memory_peak(plan, simulation.peak_memory).bytes.value},
      {"peak_memory_per_rank_bytes", peaks},
      {"iterations", simulation.iterations},
      {"events", static_cast<int64_t>(simulation.events)},
      {"fingerprint", simulation.fingerprint},
      {"plan_digest", plan::plan_digest(plan)},
      {"seed", fmt::format("{}", plan.run.seed)},
      {"wall_s", wall.count()}};
  add_worth(answer, plan, cost::worth_of(plan, seconds(simulation.iteration)));
  if (!as_it_stands || options.strands) answer.emplace_back("policy", policy_json(chosen));
  if (check) add_check(answer, *check);
  if (prefill) add_prefill(answer, *prefill);
  if (over_time) answer.emplace_back("over_time", over_time_json(plan, simulated, simulation));
  command::print_json(out, answer);
  return judge(check);
}

command::Command add_simulate(CLI::App& app) {
  auto options = std::make_shared<SimulateOptions>();
  CLI::App* words = command::add_command(
      app, {"simulate", command::kPredicting, "predict the timeline of a job or Plan",
            "tombolo simulate examples/toy/job.toml --ascii"});
  command::add_input(words, options->in);
  command::heading(words, command::kPredicted);
  words
      ->add_option(
          "--iterations", options->iterations,
          "how many to simulate, one after the other: over the rate_trace of WAN links, and as a "
          "run changes what density = \"auto\" and adaptive_batch leave to it")
      ->check(CLI::Range(1, 1000000))
      ->each([options](const std::string&) {
        options->over_time = options->in.follows_changes = true;
      });
  CLI::Option* policy = command::suggestions(
      words->add_option("--policy", options->policy,
                        "another schedule than the job's, or best, which searches"),
      command::policies());
  words
      ->add_flag("--no-split", options->no_split,
                 "best: gradients of inputs and weights stay together")
      ->needs(policy);
  words
      ->add_flag("--prove", options->prove,
                 "best: say whether any schedule of this layout is shorter; for up to 300 "
                 "backwards of a cell")
      ->needs(policy);
  words
      ->add_option("--measured", options->measured,
                   "best: Trace from which the stage times are taken")
      ->type_name("FILE")
      ->needs(policy);
  words->add_flag("--strands", options->strands,
                  "run each forward of a folded schedule together with a backward, as strands of "
                  "a layer take them (tombolo strand); best tries it where layers communicate");
  command::heading(words, "Prefill in the bubbles");
  words
      ->add_option("--prefill", options->prefill,
                   "what the bubbles carry of recorded requests (CSV as Azure publishes them) to "
                   "the model of [prefill]")
      ->type_name("FILE");
  command::positive(words->add_option("--prefill-scale", options->prefill_scale,
                                      "requests come that many times as fast"));
  words->add_flag("--no-suspension", options->no_suspension,
                  "prefill: the layers of a GPU run within one gap");
  words->add_flag("--prefill-batch", options->prefill_batch,
                  "prefill: requests queue instead of being refused");
  words
      ->add_option("--prefill-decode", options->prefill_decode,
                   "prefill: of the decode workers; left out: each pipeline's own")
      ->type_name("DATACENTER");
  command::heading(words, command::kComesOut);
  words->add_flag("--ascii", options->ascii, "draw the schedule in the terminal");
  words->add_flag("--check", options->check,
                  "add the Trace up again: no resource carries more than it can, nothing begins "
                  "before what it needs");
  words->add_option("--out", options->out, "write the predicted Trace (JSON lines)")
      ->type_name("FILE");
  words
      ->add_option("--out-plan", options->out_plan,
                   "write the Plan that performs what was predicted")
      ->type_name("FILE");
  command::add_json(words, options->json);
  return {words, [options](std::ostream& out) { return simulate(*options, out); }};
}

}  // namespace tombolo::predict_commands
