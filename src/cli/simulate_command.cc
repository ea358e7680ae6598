#include <algorithm>
#include <chrono>

#include "cli/answer.h"
#include "cli/commands.h"
#include "cli/input.h"
#include "cli/policy_choice.h"
#include "plan/plan_file.h"
#include "schedule/ascii.h"
#include "sim/simulate.h"
#include "trace/trace_file.h"

namespace tombolo::cli {
namespace {

Value breakdown_json(const trace::Parts& parts) {
  return Value::Table{{"compute_ns", parts.compute.ns},
                      {"exposed_comm_ns", parts.exposed_communication.ns},
                      // Nothing is charged for local or remote memory by today's laws.
                      {"exposed_local_memory_ns", int64_t{0}},
                      {"exposed_remote_memory_ns", int64_t{0}},
                      {"idle_ns", parts.idle.ns}};
}

void print_wan(std::ostream& out, const std::vector<trace::WanUse>& wan) {
  for (const trace::WanUse& use : wan) {
    out << fmt::format("  {} -> {}: {} messages, ", use.from, use.to, use.messages);
    if (use.bytes > 0) {
      out << fmt::format("{} ({} on average), ", brief(Bytes{static_cast<double>(use.bytes)}),
                         brief(use.rate));
    }
    out << fmt::format("busy {:.0f} %\n", 100 * use.busy_fraction);
  }
}

void print_text(std::ostream& out, const plan::Plan& plan, const sim::Simulation& simulation) {
  const std::string pipelines =
      plan.replicas() > 1 ? fmt::format(" x {} pipelines", plan.replicas()) : "";
  out << fmt::format("{}: {} stages{}, {} micro-batches, schedule {}\n", plan.name,
                     plan.stages.size(), pipelines, plan.microbatches(),
                     plan.given ? plan.given->name : plan.parallelism.schedule);
  out << iteration_line(trace::Provenance::kPredicted, seconds(simulation.iteration),
                        fmt::format("stage times: {}", to_name(plan.cost_source)));
  const trace::Parts& sum = simulation.breakdown.sum;
  const auto share = [&](SimDuration part) {
    return sum.total().ns > 0
               ? 100.0 * static_cast<double>(part.ns) / static_cast<double>(sum.total().ns)
               : 0.0;
  };
  out << fmt::format("  ranks compute {:.1f} %, wait for a link {:.1f} %, idle {:.1f} %\n",
                     share(sum.compute), share(sum.exposed_communication), share(sum.idle));
  print_wan(out, simulation.breakdown.wan);
  const auto peak = std::max_element(simulation.peak_memory.begin(), simulation.peak_memory.end());
  const bool has_model = plan.boundary.value > 0;  // [stage_times] may stand without one
  if (has_model && peak != simulation.peak_memory.end()) {
    const auto rank = static_cast<int32_t>(peak - simulation.peak_memory.begin());
    out << fmt::format("  peak memory {} of {} on rank {}\n", brief(*peak),
                       brief(plan.device_of(rank).memory), rank);
  }
  for (const cluster::WanLink& link : plan.cluster.wan) {
    std::string ignored;
    const auto ignore = [&](bool given, const char* what) {
      if (given) ignored += fmt::format("{}{}", ignored.empty() ? "" : ", ", what);
    };
    ignore(link.loss > 0, "loss");
    ignore(link.jitter.value > 0, "jitter");
    ignore(!link.rate_trace.empty(), "rate_trace");
    if (!ignored.empty()) {
      out << fmt::format("  note: not part of the law for WAN flows yet: {} of {} - {}\n", ignored,
                         link.between[0], link.between[1]);
    }
  }
  out << fmt::format("  seed {}, plan {}, {} events, fingerprint {}\n", plan.run.seed,
                     plan::plan_digest(plan), simulation.events, simulation.fingerprint);
}

std::string simulate_command_line(const SimulateOptions& options) {
  std::string line = command_line("simulate", options.in);
  if (!options.policy.empty()) line += " --policy " + options.policy;
  if (options.no_split) line += " --no-split";
  if (!options.measured.empty()) line += " --measured " + options.measured;
  return line;
}

}  // namespace

Status simulate(const SimulateOptions& options, std::ostream& out) {
  const auto begin = std::chrono::steady_clock::now();
  if (options.policy != "best" && (options.no_split || !options.measured.empty())) {
    return unusable(fmt::format("--policy {}: {} goes with --policy best", options.policy,
                                options.no_split ? "--no-split" : "--measured"),
                    "--policy best");
  }
  const bool as_it_stands = options.policy.empty();
  const ChosenPolicy chosen =
      as_it_stands ? ChosenPolicy{TRY(load_plan(options.in)), {}, {}} : TRY(choose_policy(options));
  const plan::Plan& plan = chosen.plan;
  const sim::Simulation simulation =
      TRY(predict(plan, options.iterations, simulate_command_line(options)));
  if (!options.out.empty()) TRY(trace::write_trace(options.out, simulation.trace));
  if (!options.out_plan.empty()) TRY(plan::write_plan(options.out_plan, plan));
  const std::chrono::duration<double> wall = std::chrono::steady_clock::now() - begin;

  if (!options.json) {
    print_text(out, plan, simulation);
    print_policy(out, chosen);
    if (options.ascii) {
      const schedule::Shape shape = schedule::shape_of(plan);
      const schedule::Times times = schedule::times_of(plan);
      out << "\n" << schedule::draw_ascii(simulation.trace, {.shape = &shape, .times = &times});
    }
    return {};
  }
  double peak = 0;
  for (const Bytes bytes : simulation.peak_memory) peak = std::max(peak, bytes.value);
  Value::Array peaks;
  for (const Bytes bytes : simulation.peak_memory) peaks.push_back(bytes.value);
  Value::Table answer{{"provenance", "predicted"},
                      {"iteration_ns", simulation.iteration.ns},
                      {"cost_source", std::string(to_name(plan.cost_source))},
                      {"breakdown", breakdown_json(simulation.breakdown.sum)},
                      {"utilization", simulation.breakdown.utilization},
                      {"peak_memory_bytes", peak},
                      {"peak_memory_per_rank_bytes", peaks},
                      {"iterations", int64_t{options.iterations}},
                      {"events", static_cast<int64_t>(simulation.events)},
                      {"fingerprint", simulation.fingerprint},
                      {"plan_digest", plan::plan_digest(plan)},
                      {"seed", fmt::format("{}", plan.run.seed)},
                      {"wall_s", wall.count()}};
  if (!as_it_stands) answer.emplace_back("policy", policy_json(chosen));
  print_json(out, answer);
  return {};
}

}  // namespace tombolo::cli
