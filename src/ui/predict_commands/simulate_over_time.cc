#include "ui/predict_commands/simulate_over_time.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "spec/cluster/rate_trace.h"
#include "spec/plan/adaptive_batch.h"
#include "spec/trace/trace.h"
#include "steer/tune/tuning_decisions.h"
#include "ui/command/decisions_json.h"

namespace tombolo::predict_commands {
namespace {

constexpr size_t kStretchesShown = 12;  // at either end, where there are more than twice as many
constexpr int64_t kBlocks = 10;         // of a run whose density stays

std::string name_of(const cluster::WanLink& link) {
  return fmt::format("{} - {}", link.between[0], link.between[1]);
}

std::string ms(double ns) { return fmt::format("{:.4g} ms", ns * 1e-6); }

// A WAN link between datacenters that have ranks.
struct Line {
  const cluster::WanLink* link = nullptr;
  const cluster::RateTrace* rates = nullptr;  // null: its rate stays

  BytesPerSecond mean(SimTime from, SimTime to) const {
    if (!rates) return link->node_pair_limit;
    if (to == from) return rates->rate_at(from - SimTime{});
    return Bytes{rates->bytes_between(from - SimTime{}, to - SimTime{})} / seconds(to - from);
  }
};

std::vector<Line> lines_of(const plan::Plan& plan, const sim::Options& options) {
  const auto has_ranks = [&](const std::string& datacenter) {
    return std::any_of(plan.ranks.begin(), plan.ranks.end(),
                       [&](const auto& rank) { return rank.datacenter == datacenter; });
  };
  std::vector<Line> lines;
  for (size_t i = 0; i < plan.cluster.wan.size(); ++i) {
    const cluster::WanLink& link = plan.cluster.wan[i];
    if (!has_ranks(link.between[0]) || !has_ranks(link.between[1])) continue;
    const bool changes = i < options.rates.size() && !options.rates[i].empty();
    lines.push_back({&link, changes ? &options.rates[i] : nullptr});
  }
  return lines;
}

// Without the first iteration, which waits for no gradients, and the last one, which is no period, where iterations
// overlap; all where that leaves none.
std::vector<trace::IterationTime> steady(std::vector<trace::IterationTime> times) {
  const auto is_steady = [](const trace::IterationTime& time) { return time.steady; };
  if (std::any_of(times.begin(), times.end(), is_steady))
    std::erase_if(times, [](const trace::IterationTime& time) { return !time.steady; });
  return times;
}

struct Periods {
  size_t count = 0;
  double mean = 0;       // ns
  double variation = 0;  // the plain coefficient of variation
  double least = 0, most = 0;
};

Periods periods_of(const std::vector<trace::IterationTime>& times) {
  Periods out;
  double sum = 0, squares = 0;
  for (const trace::IterationTime& time : times) {
    const auto period = static_cast<double>((time.end - time.start).ns);
    sum += period;
    out.least = out.count == 0 ? period : std::min(out.least, period);
    out.most = std::max(out.most, period);
    ++out.count;
  }
  if (out.count == 0) return out;
  out.mean = sum / static_cast<double>(out.count);
  for (const trace::IterationTime& time : times) {
    const double away = static_cast<double>((time.end - time.start).ns) - out.mean;
    squares += away * away;
  }
  if (out.mean > 0) out.variation = std::sqrt(squares / static_cast<double>(out.count)) / out.mean;
  return out;
}

// Of sparse updates; nothing where others are exchanged.
std::optional<double> density_of(const plan::Plan& plan, const sim::Simulation& simulation,
                                 int64_t iteration) {
  if (!simulation.densities.empty())
    return simulation.densities[static_cast<size_t>(iteration - 1)];
  if (!plan.exchange || !plan.exchange->keeps_residuals() || !plan.replicas_lie_apart()) return {};
  return plan.exchange->density_in_use();
}

// Iterations with one density, or a tenth of them, [first, end) in the list of their times.
struct Stretch {
  size_t first = 0, end = 0;
};

std::vector<Stretch> stretches_of(const std::vector<trace::IterationTime>& times,
                                  const sim::Simulation& simulation) {
  std::vector<Stretch> out;
  const size_t all = times.size();
  if (simulation.decisions.empty()) {
    const size_t blocks = std::min<size_t>(all, kBlocks);
    for (size_t b = 0; b < blocks; ++b) out.push_back({b * all / blocks, (b + 1) * all / blocks});
    return out;
  }
  for (size_t i = 0; i < all; ++i) {
    const auto density = [&](size_t at) {
      return simulation.densities[static_cast<size_t>(times[at].iteration - 1)];
    };
    if (i == 0 || density(i) != density(i - 1)) out.push_back({i, i});
    out.back().end = i + 1;
  }
  return out;
}

void print_stretch(std::ostream& out, const plan::Plan& plan, const std::vector<Line>& lines,
                   const std::vector<trace::IterationTime>& times,
                   const sim::Simulation& simulation, const Stretch& stretch) {
  const trace::IterationTime &first = times[stretch.first], &last = times[stretch.end - 1];
  std::vector<trace::IterationTime> here(times.begin() + static_cast<ptrdiff_t>(stretch.first),
                                         times.begin() + static_cast<ptrdiff_t>(stretch.end));
  const Periods periods = periods_of(steady(std::move(here)));
  std::string text =
      fmt::format("  {:>13}", first.iteration == last.iteration
                                  ? fmt::format("{}", first.iteration)
                                  : fmt::format("{} - {}", first.iteration, last.iteration));
  if (const auto density = density_of(plan, simulation, first.iteration))
    text += fmt::format("  density {:<7g}", *density);
  text += fmt::format("  period {}, at most {}", ms(periods.mean), ms(periods.most));
  for (const Line& line : lines) {
    text += "  " + brief(line.mean(first.start, last.end));
    if (lines.size() > 1) text += " " + name_of(*line.link);
  }
  out << text << "\n";
  for (const tune::DensityDecision& each : simulation.decisions) {
    if (each.first_iteration == first.iteration) out << "      " << each.reason << "\n";
  }
}

void print_line(std::ostream& out, const Line& line, SimTime end) {
  if (!line.rates) {
    out << fmt::format("  {}: {} all the time\n", name_of(*line.link),
                       brief(line.link->node_pair_limit));
    return;
  }
  BytesPerSecond lowest = line.rates->highest();
  for (const auto& step : line.rates->steps()) lowest = std::min(lowest, step.rate);
  const Seconds run = seconds(end - SimTime{}), trace = seconds(line.rates->period());
  out << fmt::format("  {}: {} on average, from {} ({} to {} in {}{})\n", name_of(*line.link),
                     brief(line.mean({}, end)), line.link->rate_trace, brief(lowest),
                     brief(line.rates->highest()), brief(trace),
                     run > trace ? ", which starts over" : "");
}

Status refuse_with_changes(const SimulateOptions& options, const std::string& what) {
  const auto no = [&](const std::string& option, const std::string& why) {
    return unusable(
        fmt::format("{}: {}, but {} from iteration to iteration", option, why, what),
        fmt::format("{} without --iterations, or --iterations without {}", option, option));
  };
  if (options.check) return no("--check", "adds up a Trace of equal iterations");
  if (!options.prefill.empty()) return no("--prefill", "counts with equal iterations");
  if (options.policy == "best") return no("--policy best", "compares equal iterations");
  return {};
}

}  // namespace

Result<sim::Options> read_over_time(const SimulateOptions& options, const plan::Plan& plan) {
  sim::Options out{.iterations = options.iterations};
  if (!options.over_time) return out;
  out.steers_density = out.steers_batch = true;
  const bool density = sim::density_is_steered(plan, out);
  const bool batch = sim::batch_is_steered(plan, out);
  std::string changes = density && batch ? "the density and the batch change"
                        : density        ? "the density changes"
                        : batch          ? "the batch changes"
                                         : "";
  for (size_t i = 0; i < plan.cluster.wan.size(); ++i) {
    const cluster::WanLink& link = plan.cluster.wan[i];
    if (link.rate_trace.empty()) continue;
    out.rates.resize(plan.cluster.wan.size());
    out.rates[i] = TRY(during(cluster::read_rate_trace(link.rate_trace),
                              fmt::format("reading the rate_trace of {}", name_of(link))));
    if (changes.empty()) changes = fmt::format("the rate of {} changes", name_of(link));
  }
  if (!changes.empty()) TRY(refuse_with_changes(options, changes));
  return out;
}

bool is_over_time(const plan::Plan& plan, const sim::Options& options) {
  return !options.rates.empty() || sim::density_is_steered(plan, options) ||
         sim::batch_is_steered(plan, options);
}

void print_over_time(std::ostream& out, const plan::Plan& plan, const sim::Options& options,
                     const sim::Simulation& simulation) {
  const std::vector<trace::IterationTime> times = trace::iteration_times(simulation.trace);
  const std::vector<Line> lines = lines_of(plan, options);
  const Periods periods = periods_of(steady(times));
  const SimTime end = times.back().end;
  out << fmt::format(
      "over time: {} iterations in {}; period {} on average, {} to {}, coefficient of variation "
      "{:.3f}\n",
      times.size(), brief(seconds(end - SimTime{})), ms(periods.mean), ms(periods.least),
      ms(periods.most), periods.variation);
  for (const Line& line : lines) print_line(out, line, end);
  if (!simulation.densities.empty()) {
    const size_t changes = simulation.decisions.size();
    out << fmt::format("  density: {:g} at first", simulation.densities.front());
    out << (changes == 0 ? ", never changed\n"
                         : fmt::format(", {:g} at last, {} change{}\n", simulation.densities.back(),
                                       changes, changes == 1 ? "" : "s"));
  }
  if (sim::batch_is_steered(plan, options)) {
    const auto& changes = simulation.batch_decisions;
    out << fmt::format("  microbatches of each pipeline: {} at first{}\n",
                       plan::to_text(plan::microbatches_of_all(plan)),
                       changes.empty() ? ", never changed" : "");
    for (const tune::BatchDecision& each : changes) out << "    " << tune::to_line(each) << "\n";
  }
  const std::vector<Stretch> stretches = stretches_of(times, simulation);
  const bool all = stretches.size() <= 2 * kStretchesShown + 1;
  for (size_t i = 0; i < stretches.size(); ++i) {
    if (!all && i == kStretchesShown) {
      const size_t left_out = stretches.size() - 2 * kStretchesShown;
      out << fmt::format("  ... {} more; --json has every iteration\n", left_out);
      i += left_out;
    }
    print_stretch(out, plan, lines, times, simulation, stretches[i]);
  }
}

Value over_time_json(const plan::Plan& plan, const sim::Options& options,
                     const sim::Simulation& simulation) {
  const std::vector<trace::IterationTime> times = trace::iteration_times(simulation.trace);
  const std::vector<Line> lines = lines_of(plan, options);
  const Periods periods = periods_of(steady(times));
  const SimTime end = times.back().end;
  Value::Array links, iterations;
  for (const Line& line : lines) {
    links.push_back(
        Value::Table{{"between", Value::Array{line.link->between[0], line.link->between[1]}},
                     {"rate_trace", line.rates ? Value(line.link->rate_trace) : Value()},
                     {"trace_ns", line.rates ? Value(line.rates->period().ns) : Value()},
                     {"mean_bytes_per_s", line.mean({}, end).value}});
  }
  for (const trace::IterationTime& time : times) {
    Value::Array rates;
    for (const Line& line : lines) rates.push_back(line.mean(time.start, time.end).value);
    const auto density = density_of(plan, simulation, time.iteration);
    iterations.push_back(Value::Table{{"iteration", time.iteration},
                                      {"start_ns", time.start.ns},
                                      {"period_ns", (time.end - time.start).ns},
                                      {"counts", time.steady},
                                      {"density", density ? Value(*density) : Value()},
                                      {"line_bytes_per_s", rates}});
  }
  const bool steered = !simulation.densities.empty();
  Value::Table answer{
      {"span_ns", (end - SimTime{}).ns},
      {"period", Value::Table{{"mean_ns", periods.mean},
                              {"variation", periods.variation},
                              {"least_ns", periods.least},
                              {"most_ns", periods.most}}},
      {"lines", links},
      {"density",
       steered ? command::decisions_json(simulation.densities.front(),
                                         std::ssize(simulation.decisions), simulation.decisions)
               : Value()},
      {"iterations", iterations}};
  if (sim::batch_is_steered(plan, options))
    answer.emplace_back("microbatches",
                        command::decisions_json(plan, std::ssize(simulation.batch_decisions),
                                                simulation.batch_decisions));
  return answer;
}

}  // namespace tombolo::predict_commands
