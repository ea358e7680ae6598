#include "ui/predict_commands/simulate_prefill.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/quantiles.h"
#include "predict/sim/simulate.h"

namespace tombolo::predict_commands {
namespace {

Value quantiles_json(const std::vector<double>& values) {
  if (values.empty()) return Value::Table{};
  return Value::Table{{"p50", quantile(values, 0.5)},
                      {"p90", quantile(values, 0.9)},
                      {"p99", quantile(values, 0.99)}};
}

std::string quantiles_text(const std::vector<double>& values) {
  if (values.empty()) return "of none";
  return fmt::format("{} at the median, {} at the 99th percentile",
                     brief(Seconds{quantile(values, 0.5)}), brief(Seconds{quantile(values, 0.99)}));
}

std::string depth_text(const prefill_sim::PrefillReport& report) {
  return report.depth_min == report.depth_max
             ? fmt::format("{}", report.depth_min)
             : fmt::format("{} to {}", report.depth_min, report.depth_max);
}

std::string refusals_text(const prefill_sim::PrefillReport& report) {
  std::string text;
  for (const auto& [count, what] : {std::pair(report.no_window, "no window in time"),
                                    std::pair(report.too_long, "too long for the model"),
                                    std::pair(report.no_line, "no line to the decode worker"),
                                    std::pair(report.waiting, "still queued")}) {
    if (count > 0) text += fmt::format("{}{} {}", text.empty() ? " (" : ", ", count, what);
  }
  return text.empty() ? text : text + ")";
}

Value gaps_json(const prefill_sim::PrefillReport& report) {
  const prefill::GapLengths& gaps = report.gaps;
  return Value::Table{{"gaps_per_period", gaps.gaps},
                      {"idle_share", gaps.idle_share},
                      {"p10_ns", gaps.p10.ns},
                      {"p50_ns", gaps.p50.ns},
                      {"p90_ns", gaps.p90.ns},
                      {"longest_ns", gaps.longest.ns},
                      {"half_of_idle_ns", gaps.half_of_idle.ns}};
}

}  // namespace

Result<prefill_sim::PrefillReport> simulate_prefill(const SimulateOptions& options,
                                                    const plan::Plan& plan) {
  const std::vector<prefill_sim::TracedRequest> requests =
      TRY(prefill_sim::read_request_trace(options.prefill));
  const sim::Simulation steady =
      TRY(sim::simulate(plan, {.iterations = prefill_sim::kIterationsMin}));
  prefill_sim::PrefillRunOptions run{.scale = options.prefill_scale,
                                     .suspension = !options.no_suspension,
                                     .batch = options.prefill_batch,
                                     .decode = options.prefill_decode,
                                     .check = options.check};
  return prefill_sim::run_prefill(plan, steady.trace, requests, run, SystemClock());
}

void print_prefill(std::ostream& out, const plan::Plan& plan,
                   const prefill_sim::PrefillReport& report) {
  const prefill::GapLengths& gaps = report.gaps;
  out << fmt::format(
      "  bubbles: {:.1f} % of {} GPUs' time, {} gaps a period of {}; median {}, longest {}, half "
      "of "
      "the idle time in gaps of at least {}\n",
      100 * gaps.idle_share, report.gpus, gaps.gaps, brief(seconds(report.period)),
      brief(seconds(gaps.p50)), brief(seconds(gaps.longest)), brief(seconds(gaps.half_of_idle)));
  out << fmt::format("  prefill of {}: {} pipelines of depth {}, {} of weights on a GPU at most\n",
                     plan.prefill->model.name, report.pipelines, depth_text(report),
                     brief(report.shard_max));
  out << fmt::format("  {} of {} prompts accepted, {:.2f} %{}; {:.0f} tokens/s\n", report.accepted,
                     report.requests, 100 * report.accepted_share(), refusals_text(report),
                     report.tokens_per_s);
  out << fmt::format("  GPUs compute {:.1f} % with prefill, {:.1f} % without; ceiling {:.1f} %\n",
                     100 * report.utilization_after, 100 * report.utilization_before,
                     100 * report.ceiling);
  out << fmt::format("  first token after {}\n", quantiles_text(report.ttft_s));
  out << fmt::format("  queueing {}\n", quantiles_text(report.queueing_s));
  out << fmt::format("  KV cache handed over after {}\n", quantiles_text(report.handed_over_s));
  if (report.gpus_saved) {
    out << fmt::format("  as many prompts need {} dedicated GPUs\n", *report.gpus_saved);
  }
  if (!report.placement_us.empty()) {
    out << fmt::format("  placement measured: {}\n", [&] {
      std::vector<double> in_seconds;
      for (const double us : report.placement_us) in_seconds.push_back(us * 1e-6);
      return quantiles_text(in_seconds);
    }());
  }
}

void add_prefill(Value::Table& answer, const prefill_sim::PrefillReport& report) {
  answer.emplace_back("utilization_before", report.utilization_before);
  answer.emplace_back("utilization_after", report.utilization_after);
  answer.emplace_back("utilization_ceiling", report.ceiling);
  answer.emplace_back("accepted_share", report.accepted_share());
  answer.emplace_back("requests", report.requests);
  answer.emplace_back("refused", Value::Table{{"no_window", report.no_window},
                                              {"too_long", report.too_long},
                                              {"no_line", report.no_line},
                                              {"waiting", report.waiting}});
  answer.emplace_back("ttft_s", quantiles_json(report.ttft_s));
  answer.emplace_back("queueing_s", quantiles_json(report.queueing_s));
  answer.emplace_back("handed_over_s", quantiles_json(report.handed_over_s));
  answer.emplace_back("placement_us", quantiles_json(report.placement_us));
  answer.emplace_back("gpus_saved", report.gpus_saved.value_or(0));
  answer.emplace_back("tokens_per_s", report.tokens_per_s);
  answer.emplace_back("span_s", seconds(report.span).value);
  answer.emplace_back("period_ns", report.period.ns);
  answer.emplace_back("prefill_gpus", report.gpus);
  answer.emplace_back("prefill_pipelines", report.pipelines);
  answer.emplace_back("prefill_depth",
                      Value::Table{{"min", report.depth_min}, {"max", report.depth_max}});
  answer.emplace_back("shard_bytes_max", report.shard_max.value);
  answer.emplace_back("gap_lengths", gaps_json(report));
}

}  // namespace tombolo::predict_commands
