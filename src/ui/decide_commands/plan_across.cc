#include <algorithm>
#include <chrono>
#include <cmath>

#include "base/file.h"
#include "base/text_table.h"
#include "decide/across/break_even.h"
#include "decide/across/promise.h"
#include "decide/across/ways.h"
#include "spec/plan/job.h"
#include "steer/tune/convergence_profile.h"
#include "ui/command/answer.h"
#include "ui/command/progress.h"
#include "ui/decide_commands/decide_commands.h"
#include "ui/decide_commands/decision_pages.h"
#include "ui/decide_commands/search_end.h"
#include "ui/report/answer_values.h"

namespace tombolo::decide_commands {
namespace {

using across::NoWay;
using across::Way;
using across::WayRange;
using across::Ways;

// How long it takes to the target, and what it costs. The target is in tokens of dense training.
struct ToTarget {
  Seconds time;
  std::optional<Dollars> cost;
};
double dense_steps(const plan::Job& job, double tokens) {
  return tokens / (static_cast<double>(job.training.global_batch) *
                   static_cast<double>(job.model->sequence));
}
std::optional<ToTarget> to_target(const Way& way, double tokens) {
  if (tokens <= 0) return std::nullopt;
  const double steps = dense_steps(way.job, tokens);
  ToTarget out{way.time_per_step() * steps, {}};
  if (way.cost) out.cost = *way.cost_per_step() * steps;
  return out;
}

std::string days_text(Seconds time) {
  const double days = time.value / 86'400;
  return days < 1 ? brief(time) : fmt::format("{:.3g} days", days);
}

std::string percent_more(double share) { return fmt::format("{:.1f} % more", 100 * share); }

// What stands between a way and the best one.
std::string why_not(const Way& way, const Way& best, search::Objective objective,
                    const PlanCommandOptions& options) {
  if (&way == &best) return "";
  if (!way.within) {
    const ToTarget end = *to_target(way, options.tokens);
    std::string text;
    if (options.deadline.value > 0 && end.time > options.deadline)
      text = percent_more(end.time / options.deadline - 1) + " than the time to the deadline";
    if (options.budget.value > 0) {
      const std::string money =
          !end.cost ? "no price to compare with the budget"
          : *end.cost > options.budget
              ? percent_more(*end.cost / options.budget - 1) + " than the budget"
              : "";
      text += (text.empty() || money.empty() ? "" : ", ") + money;
    }
    return text;
  }
  if (objective == search::Objective::kCost)
    return way.cost && best.cost
               ? percent_more(*way.cost_per_step() / *best.cost_per_step() - 1) + " cost"
               : "a datacenter names no price";
  const double longer = way.time_per_step() / best.time_per_step() - 1;
  if (std::abs(longer) <= across::kTie) {
    if (!way.cost || !best.cost) return "as fast";
    const double more = *way.cost_per_step() / *best.cost_per_step() - 1;
    return more < 0.0005 ? "as fast, for as much"
                         : fmt::format("as fast, {:.1f} % more cost", 100 * more);
  }
  std::string text = percent_more(longer);
  if (way.iteration < best.iteration) {
    text += fmt::format(" with its steps, {:.1f} % less an iteration",
                        100 * (1 - way.iteration / best.iteration));
  }
  return text;
}

// "0.62 x every WAN rate", or the rate itself where all links have one.
std::string factor_text(const cluster::Cluster& cluster, across::BreakEvenAxis axis,
                        double factor) {
  const cluster::WanLink& first = cluster.wan.front();
  const auto alike = [&](auto key) {
    return std::all_of(cluster.wan.begin(), cluster.wan.end(),
                       [&](const cluster::WanLink& link) { return key(link) == key(first); });
  };
  using across::BreakEvenAxis;
  switch (axis) {
    case BreakEvenAxis::kRate:
      if (alike([](const auto& link) { return std::pair(link.node_pair_limit, link.path_limit); }))
        return fmt::format("{} between two nodes", brief(first.node_pair_limit * factor));
      return fmt::format("{:.3g} x every WAN rate", factor);
    case BreakEvenAxis::kLatency:
      if (alike([](const auto& link) { return link.one_way_latency; }))
        return fmt::format("{} one way", brief(first.one_way_latency * factor));
      return fmt::format("{:.3g} x every WAN latency", factor);
    case BreakEvenAxis::kEgress:
      if (alike([](const auto& link) { return link.price; }))
        return fmt::format("{:.3g} USD/GB of WAN traffic", first.price.value * factor * 1e9);
      return fmt::format("{:.3g} x every price of WAN traffic", factor);
    case BreakEvenAxis::kDevices:
      return fmt::format("{:.3g} x every price of devices", factor);
  }
  return "";
}

std::string_view axis_text(across::BreakEvenAxis axis) {
  using across::BreakEvenAxis;
  switch (axis) {
    case BreakEvenAxis::kRate:
      return "WAN rate";
    case BreakEvenAxis::kLatency:
      return "WAN latency";
    case BreakEvenAxis::kEgress:
      return "price of WAN traffic";
    case BreakEvenAxis::kDevices:
      return "price of devices";
  }
  return "";
}

void print_break_even(std::ostream& out, const cluster::Cluster& cluster, const Ways& found) {
  for (const across::BreakEven& each : found.break_even) {
    if (each.ranges.size() < 2) {
      const double range = across::break_even_range(each.axis);
      out << fmt::format("  {} wins from 1/{} to {} times this {}\n", found.ways.front().name,
                         range, range, axis_text(each.axis));
      continue;
    }
    out << fmt::format("break-even, these layouts with another {}\n", axis_text(each.axis));
    for (size_t i = 0; i < each.ranges.size(); ++i) {
      const WayRange& range = each.ranges[i];
      const double from = i == 0 ? each.ranges[1].from : range.from;
      out << fmt::format("  {} {}: {}\n", i == 0 ? "below" : "above",
                         factor_text(cluster, each.axis, from),
                         range.name.empty() ? "none within the limits" : range.name);
    }
  }
}

void print_text(std::ostream& out, const plan::Job& job, const Ways& found,
                const PlanCommandOptions& options, search::Objective objective, double wall) {
  const Way& best = found.ways.front();
  out << fmt::format("{}: {} over {} devices in {} datacenters, best by {}\n", job.name,
                     job.model->name.empty() ? "model" : job.model->name, job.cluster.devices(),
                     job.cluster.datacenters.size(),
                     objective == search::Objective::kCost ? "cost" : "time");
  out << fmt::format("predicted: {}\n  {}\n", best.name, best.layout);
  std::vector<TextTable::Column> columns{"",        text_column("way"), "iteration", "tokens/s",
                                         "steps x", "across",           "memory",    "cost"};
  const bool target = options.tokens > 0;
  if (target) {
    columns.emplace_back("to the target");
    columns.emplace_back("its cost");
  }
  columns.push_back(text_column("why not"));
  TextTable table(columns);
  const bool priced = std::any_of(found.ways.begin(), found.ways.end(),
                                  [](const Way& way) { return way.cost.has_value(); });
  bool beyond = false;
  for (size_t i = 0; i < found.ways.size(); ++i) {
    const Way& way = found.ways[i];
    beyond = beyond || !way.steps.beyond.empty();
    std::vector<std::string> row{
        fmt::format("{}{}.", priced && way.on_front ? "*" : "", i + 1),
        way.name,
        brief(way.iteration),
        report::figure_of(way.tokens_per_s),
        fmt::format("{:.2f}{}", way.steps.factor, way.steps.beyond.empty() ? "" : "?"),
        brief(way.across),
        brief(way.memory),
        way.cost ? brief(*way.cost) : "-"};
    if (const auto end = to_target(way, options.tokens)) {
      row.push_back(days_text(end->time));
      row.push_back(end->cost ? brief(*end->cost) : "-");
    }
    table.row(std::move(row), why_not(way, best, objective, options));
  }
  out << table.text();
  if (priced) out << "  * no other way is both faster and cheaper\n";
  if (!found.no_ways.empty()) {
    out << "no way\n";
    TextTable missed({text_column(), text_column()});
    for (const NoWay& each : found.no_ways) missed.row({each.name}, each.reason);
    out << missed.text();
  }
  print_break_even(out, job.cluster, found);
  std::vector<std::string> sources;
  for (const Way& way : found.ways) {
    const std::string& source = way.steps.source;
    if (!source.empty() && std::find(sources.begin(), sources.end(), source) == sources.end())
      sources.push_back(source);
  }
  for (const std::string& source : sources) out << "  steps: " << source << "\n";
  if (beyond) {
    for (const Way& way : found.ways) {
      if (!way.steps.beyond.empty())
        out << fmt::format("  ? {}: {}; the factor is the nearest that is known\n", way.name,
                           way.steps.beyond);
    }
  }
  out << fmt::format("  {} layouts simulated in {:.1f} s\n", found.simulated, wall);
  if (found.left_out > 0)
    out << fmt::format("  {} more than {:.0f} % behind by the closed form were not\n",
                       found.left_out, 100 * across::kClosedFormOff);
  if (found.too_large > 0)
    out << fmt::format(
        "  {} of more than {} passes of a microbatch were not: a simulation takes too much "
        "memory\n",
        found.too_large, across::kMostPasses);
  for (const std::string& note : found.notes) out << "  note: " << note << "\n";
  if (found.stopped) out << "  stopped before all ways were compared\n";
  if (found.stages_stopped && !found.stopped)
    out << "  the search of stages across ended at a third of the time limit, with the best so "
           "far\n";
}

Value::Table way_json(const Way& way, const PlanCommandOptions& options) {
  Value::Array places;
  for (const std::string& name : way.datacenters) places.emplace_back(name);
  Value::Table out{{"way", way.name},
                   {"kind", std::string(to_name(way.kind))},
                   {"layout", way.layout},
                   {"datacenters", places},
                   {"devices", way.devices},
                   {"iteration_s", way.iteration.value},
                   {"tokens_per_s", way.tokens_per_s ? Value(*way.tokens_per_s) : Value()},
                   {"mfu", way.mfu ? Value(*way.mfu) : Value()},
                   {"memory_bytes", way.memory.value},
                   {"wan_bytes", way.across.value},
                   {"cost_usd", way.cost ? Value(way.cost->value) : Value()},
                   {"steps_factor", way.steps.factor},
                   {"steps_source", way.steps.source},
                   {"steps_beyond", way.steps.beyond},
                   {"s_per_dense_step", way.time_per_step().value},
                   {"usd_per_dense_step", way.cost ? Value(way.cost_per_step()->value) : Value()},
                   {"within", way.within},
                   {"on_front", way.on_front}};
  if (const auto end = to_target(way, options.tokens)) {
    out.emplace_back("target_s", end->time.value);
    out.emplace_back("target_usd", end->cost ? Value(end->cost->value) : Value());
  }
  return out;
}

Value::Table to_json(const Ways& found, const PlanCommandOptions& options, double wall) {
  Value::Array ways, no_ways, break_even, notes;
  for (const std::string& note : found.notes) notes.emplace_back(note);
  for (const Way& way : found.ways) ways.emplace_back(way_json(way, options));
  for (const NoWay& each : found.no_ways)
    no_ways.emplace_back(Value::Table{{"way", each.name}, {"reason", each.reason}});
  for (const across::BreakEven& each : found.break_even) {
    Value::Array ranges;
    for (const WayRange& range : each.ranges)
      ranges.emplace_back(Value::Table{{"from_factor", range.from}, {"way", range.name}});
    break_even.emplace_back(
        Value::Table{{"axis", std::string(to_name(each.axis))}, {"ranges", ranges}});
  }
  return {{"provenance", "predicted"},
          {"objective", options.objective},
          {"best", ways.front()},
          {"ways", ways},
          {"no_ways", no_ways},
          {"break_even", break_even},
          {"notes", notes},
          {"simulated", found.simulated},
          {"left_out", found.left_out},
          {"too_large", found.too_large},
          {"stopped", found.stopped || found.stages_stopped},
          {"wall_s", wall}};
}

// The limits to the target as limits of a dense iteration.
across::WayLimits limits_of(const plan::Job& job, const PlanCommandOptions& options) {
  across::WayLimits limits;
  if (options.tokens <= 0) return limits;
  const double steps = dense_steps(job, options.tokens);
  if (options.deadline.value > 0) limits.time_per_step = options.deadline / steps;
  if (options.budget.value > 0) limits.cost_per_step = options.budget / steps;
  return limits;
}

tl::unexpected<Error> beyond_limits(const Ways& found, const PlanCommandOptions& options) {
  const auto least = [&](auto key) {
    return *std::min_element(found.ways.begin(), found.ways.end(),
                             [&](const Way& a, const Way& b) { return key(a) < key(b); });
  };
  const Way fastest = least([](const Way& way) { return way.time_per_step().value; });
  const Way cheapest =
      least([](const Way& way) { return way.cost ? way.cost_per_step()->value : INFINITY; });
  std::string text =
      fmt::format("{}: no way trains {:.3g} tokens within the limits", options.job, options.tokens);
  for (const auto& [what, way] :
       {std::pair("fastest", &fastest), std::pair("cheapest", &cheapest)}) {
    if (way == &cheapest && !way->cost) continue;
    const ToTarget end = *to_target(*way, options.tokens);
    text += fmt::format("\n  {}: {}, {}{}", what, way->name, days_text(end.time),
                        end.cost ? ", " + brief(*end.cost) : "");
  }
  return infeasible(text, "a later --deadline or a larger --budget");
}

std::string comment_of(const Way& way, const PlanCommandOptions& options) {
  return fmt::format("tombolo plan {} --across --objective {}\n{}, predicted iteration {}",
                     options.job, options.objective, way.name, brief(way.iteration));
}

}  // namespace

Status plan_across(const plan::OpenJob& open, const PlanCommandOptions& options,
                   const std::string& convergence_profile, std::ostream& out) {
  const auto begin = std::chrono::steady_clock::now();
  std::optional<AtomicFile> page = TRY(open_page(options.report, options.out));
  const search::Objective objective = *from_name<search::Objective>(options.objective);
  const bool of_job = options.steps_factor.empty() && !convergence_profile.empty();
  const std::string steps = of_job                         ? convergence_profile
                            : options.steps_factor.empty() ? "law"
                                                           : options.steps_factor;
  std::optional<tune::ConvergenceProfile> profile;
  if (steps != "law" && steps != "off") {
    const std::string reading =
        of_job ? options.job + ": exchange.convergence_profile"
               : "reading --steps-factor, which is law, off or a profile of tombolo tune";
    const std::string text = TRY(during(read_file(steps), reading));
    profile = TRY(during(tune::ConvergenceProfile::parse(text, steps), reading));
    if (const auto note = tune::note_on_training(profile->record().bounds, steps, open.job))
      command::note(*note);
  }
  Ways found;
  {
    command::SearchBar bar;
    const SearchEnd end(options.time_limit);
    found = TRY(across::ways_across(
        open, {.objective = objective,
               .limits = open.job.model ? limits_of(open.job, options) : across::WayLimits{},
               .threads = options.threads,
               .count_steps = steps != "off",
               .profile = profile ? &*profile : nullptr,
               .local_steps = options.local_steps,
               .progress = [&](int64_t done, int64_t all) { bar.show(done, all); },
               .stop = [&] { return end.is_here(); },
               .stop_stages = [&] { return end.is_here(1.0 / 3); },
               .stop_simulations = [&] { return end.is_over(); }}));
  }
  if (!found.ways.front().within) return beyond_limits(found, options);
  if (options.way > std::ssize(found.ways))
    return unusable(fmt::format("--way {}: there are {}", options.way, found.ways.size()),
                    "a number of the table");
  const std::chrono::duration<double> wall = std::chrono::steady_clock::now() - begin;
  if (page) {
    std::vector<std::string> why;
    for (const Way& way : found.ways)
      why.push_back(why_not(way, found.ways.front(), objective, options));
    TRY(page->write(across_page(to_json(found, options, wall.count()), open.job, found.ways, why,
                                options.threads, options.command)));
  }
  std::string written;
  if (!options.out.empty()) {
    const Way& way = found.ways[static_cast<size_t>(options.way - 1)];
    written = TRY(write_layout(way.job, options.out, comment_of(way, options)));
  }
  if (page) TRY(page->commit());
  if (options.json) {
    command::print_json(out, to_json(found, options, wall.count()));
    return {};
  }
  print_text(out, open.job, found, options, objective, wall.count());
  if (!written.empty()) out << written << "\n";
  if (page) out << "wrote " << options.report << "\n";
  return {};
}

}  // namespace tombolo::decide_commands
