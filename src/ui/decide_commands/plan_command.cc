#include <CLI/CLI.hpp>
#include <chrono>
#include <cmath>

#include "base/file.h"
#include "base/lone_number.h"
#include "base/parallel.h"
#include "base/text_table.h"
#include "decide/search/best_plan.h"
#include "decide/search/export.h"
#include "predict/cost/law.h"
#include "predict/cost/price_plan.h"
#include "spec/plan/job_value.h"
#include "spec/plan/open_job.h"
#include "spec/plan/plan_file.h"
#include "spec/schedule/schedule.h"
#include "ui/command/answer.h"
#include "ui/command/caller.h"
#include "ui/command/input.h"
#include "ui/command/progress.h"
#include "ui/command/words.h"
#include "ui/decide_commands/decide_commands.h"
#include "ui/decide_commands/decision_pages.h"
#include "ui/decide_commands/search_end.h"
#include "ui/decide_commands/with_strands.h"
#include "ui/report/answer_values.h"

namespace tombolo::decide_commands {
namespace {

using cost::Configuration;
using search::BestPlan;
using search::RankedPlan;
using search::WhyNot;

// ---- text ----

std::string price_text(const RankedPlan& plan) {
  return plan.price ? brief(*plan.price) : std::string("-");
}

void print_top(std::ostream& out, const std::vector<RankedPlan>& top) {
  TextTable table({"", "iteration", "MFU", "memory", "cost", text_column("parallelism")});
  for (size_t i = 0; i < top.size(); ++i) {
    const RankedPlan& plan = top[i];
    table.row({fmt::format("{}.", i + 1), brief(plan.iteration()),
               fmt::format("{:.1f} %", 100 * plan.mfu), brief(plan.candidate.memory),
               price_text(plan), search::configuration_text(plan.candidate.configuration)});
  }
  out << table.text();
}

void print_best(std::ostream& out, const RankedPlan& best,
                const std::optional<published::ErrorBand>& band) {
  out << fmt::format("predicted iteration: {}{}, {} tokens/s\n  {}\n", brief(best.iteration()),
                     time_source(best.simulated, best.candidate.time),
                     report::figure_of(best.tokens_per_second),
                     search::configuration_text(best.candidate.configuration));
  if (band) {
    out << fmt::format("  {} to {} in 8 of 10 published runs like it ({} rows: {})\n",
                       brief(band->low), brief(band->high), band->rows, band->of);
  }
  std::string parts;
  for (const auto& [name, time] : best.parts) {
    if (time.value <= 0) continue;
    parts += fmt::format("{}{} {:.1f} %", parts.empty() ? "" : ", ", name,
                         100 * (time / best.candidate.time));
  }
  out << "  " << parts << "\n";
  if (best.idle_devices > 0) out << fmt::format("  {} devices stay idle\n", best.idle_devices);
  const std::vector<int64_t>& layers = best.job.parallelism.layers_per_stage;
  if (!layers.empty()) out << fmt::format("  layers per stage: {}\n", fmt::join(layers, " "));
}

void print_why_not(std::ostream& out, const std::vector<WhyNot>& all) {
  const std::vector<WhyNot> chosen = search::short_list(all);
  if (chosen.empty()) return;
  out << "why not\n";
  TextTable table({text_column(), text_column()});
  for (const WhyNot& why : chosen) {
    table.row({search::family_text(why.axis, why.value), why.text});
  }
  out << table.text();
  if (chosen.size() < all.size()) {
    out << fmt::format("  ... {} more with --json\n", all.size() - chosen.size());
  }
}

void print_text(std::ostream& out, const plan::Job& job, const BestPlan& found,
                const PlanCommandOptions& options, double wall) {
  const cluster::Datacenter& datacenter = job.cluster.datacenters[0];
  out << fmt::format("{}: {} on up to {} x {}, law {}, objective {}\n", job.name,
                     job.model->name.empty() ? "model" : job.model->name, datacenter.devices(),
                     datacenter.device.name, options.law, options.objective);
  print_best(out, found.top.front(), found.band);
  print_top(out, found.top);
  print_why_not(out, found.why_not);
  const search::SearchCounts& n = found.counts;
  out << fmt::format(
      "{} configurations in {:.2f} s: {} evaluated, {} need more than {}, {} slower than a bound\n",
      n.covered, wall, n.evaluated, n.over_memory + n.pruned_by_memory,
      brief(found.memory_of_device), n.pruned_by_bound);
  out << "  space: " << found.limits << "\n";
  if (found.finals.of > 0) out << "  " << search::finals_text(found.finals) << "\n";
  if (found.stopped) {
    out << "  " << stopped_text(found.gap, *from_name<search::Objective>(options.objective))
        << "\n";
  }
  for (const std::string& note : found.notes) out << "  note: " << note << "\n";
}

// ---- JSON ----

Value::Table parallelism_json(const RankedPlan& plan) {
  const Configuration& c = plan.candidate.configuration;
  Value::Array layers;
  for (const int64_t count : plan.job.parallelism.layers_per_stage) layers.push_back(count);
  return {{"tensor", c.tensor},
          {"pipeline", c.pipeline},
          {"data", c.data},
          {"context", c.context},
          {"expert", c.expert},
          {"virtual_stages", c.virtual_stages},
          {"zero", c.zero},
          {"sequence_parallel", c.sequence_parallel},
          {"order", plan.job.parallelism.order},
          {"schedule", std::string(to_name(plan.job.parallelism.schedule))},
          {"layers_per_stage", layers},
          {"micro_batch", c.micro_batch},
          {"micro_batches", c.microbatches()},
          {"recompute", std::string(to_name(c.recompute))}};
}

// Where it runs: one entry per datacenter.
Value::Array placement_json(const RankedPlan& plan) {
  const cluster::Datacenter& datacenter = plan.job.cluster.datacenters[0];
  const Configuration& c = plan.candidate.configuration;
  const cost::GroupPlacement layout = cost::lay_out(c, datacenter.scale_up.domain);
  const auto grid = [](const cost::DegreeSplit& g) {
    return Value::Table{{"in_domain", g.domain}, {"in_network", g.network}};
  };
  const int64_t nodes =
      (c.devices() + datacenter.devices_per_node - 1) / datacenter.devices_per_node;
  return {Value::Table{{"datacenter", datacenter.name},
                       {"device", datacenter.device.name},
                       {"devices", c.devices()},
                       {"nodes", nodes},
                       {"idle_devices", plan.idle_devices},
                       {"first_stage", int64_t{0}},
                       {"stages", c.pipeline},
                       {"tensor", grid(layout.tensor)},
                       {"context", grid(layout.context)},
                       {"data", grid(layout.data)},
                       {"pipeline", grid(layout.pipeline)}}};
}

Value::Table ranked_json(const RankedPlan& plan) {
  Value::Table parts;
  for (const auto& [name, time] : plan.parts) {
    std::string key = name + "_s";
    std::replace(key.begin(), key.end(), ' ', '_');
    parts.emplace_back(key, time.value);
  }
  return {{"parallelism", parallelism_json(plan)},
          {"iteration_s", plan.iteration().value},
          {"simulated_s", plan.simulated ? Value(plan.simulated->value) : Value()},
          {"closed_form_s", plan.candidate.time.value},
          {"parts", parts},
          {"throughput", plan.tokens_per_second},
          {"mfu", plan.mfu},
          {"memory_bytes", plan.candidate.memory.value},
          {"cost_usd", plan.price ? Value(plan.price->value) : Value()},
          {"devices", plan.candidate.configuration.devices()},
          {"placement", placement_json(plan)}};
}

Value why_not_json(const WhyNot& why) {
  Value::Table entry{{"family", search::family_text(why.axis, why.value)},
                     {"axis", std::string(to_name(why.axis))},
                     {"value", why.value},
                     {"constraint", std::string(to_name(why.obstacle))},
                     {"beyond_domain", why.beyond_domain},
                     {"text", why.text},
                     {"nearest", search::configuration_text(why.nearest.configuration)},
                     {"memory_bytes", why.nearest.memory.value},
                     {"iteration_s", why.nearest.time.value}};
  if (!why.part.empty()) {
    entry.emplace_back("part", why.part);
    const bool cost = why.obstacle == search::Obstacle::kCostlier;
    entry.emplace_back(cost ? "more_cost" : "more_s", why.more);
  }
  return entry;
}

Value band_json(const std::optional<published::ErrorBand>& band) {
  if (!band) return {};
  return Value::Table{{"low_s", band->low.value},
                      {"high_s", band->high.value},
                      {"mean_error", band->mean},
                      {"rows", band->rows},
                      {"of", band->of}};
}

Value::Table to_json(const BestPlan& found, const PlanCommandOptions& options, double wall) {
  Value::Array top, why_not, notes;
  for (const RankedPlan& plan : found.top) top.push_back(ranked_json(plan));
  for (const WhyNot& why : found.why_not) why_not.push_back(why_not_json(why));
  for (const std::string& note : found.notes) notes.push_back(note);
  const search::SearchCounts& n = found.counts;
  return {{"provenance", "predicted"},
          {"law", options.law},
          {"objective", options.objective},
          {"best", top.front()},
          {"finalists", finals_json(found.finals)},
          {"band", band_json(found.band)},
          {"top", top},
          {"why_not", why_not},
          {"configurations", n.covered},
          {"evaluated", n.evaluated},
          {"feasible", n.feasible},
          {"stopped", found.stopped},
          {"gap", found.gap},
          {"pruned", Value::Table{{"over_memory", n.over_memory},
                                  {"by_memory", n.pruned_by_memory},
                                  {"by_bound", n.pruned_by_bound}}},
          {"device_bytes", found.memory_of_device.value},
          {"space", found.limits},
          {"notes", notes},
          {"wall_s", wall}};
}

// ---- artifacts ----

// Says what was written, for people.
std::string comment_of(const RankedPlan& best, const PlanCommandOptions& options) {
  return fmt::format("tombolo plan {} --law {} --objective {}\n{}, predicted iteration {}",
                     options.job, options.law, options.objective,
                     search::configuration_text(best.candidate.configuration),
                     brief(best.iteration()));
}
search::Finals finals_of(const PlanCommandOptions& options, const SearchEnd& end) {
  return {.candidates = options.simulate_for > 0_s ? search::kFinalists : 0,
          .at_most = options.simulate_for,
          .stop = [&end] { return end.is_over(); }};
}

// A cluster of several datacenters has a search of its own.
Status plan_over_datacenters(const plan::OpenJob& open, const PlanCommandOptions& options,
                             std::ostream& out) {
  const size_t count = open.job.cluster.datacenters.size();
  if (TRY(cost::find_law(options.law)) != cost::Law::kTombolo) {
    return unusable(fmt::format("--law {}: {} datacenters; only the law tombolo prices stages of "
                                "different datacenters",
                                options.law, count),
                    "--law tombolo, or one [[cluster.datacenter]]");
  }
  if (options.all_devices || !options.export_to.empty()) {
    return unusable(fmt::format("{}: {} datacenters; which of them are used is searched, and other "
                                "programs have no words for it",
                                options.all_devices ? "--all-devices" : "--export", count),
                    "--out plan.json or job.toml");
  }
  MixedPlanOptions mixed{.job = options.job,
                         .search = {},
                         .out = options.out,
                         .report = options.report,
                         .command = options.command,
                         .json = options.json};
  mixed.search.objective = *from_name<search::Objective>(options.objective);
  mixed.search.top = options.top;
  mixed.search.threads = options.threads;
  mixed.search.prune = !options.no_pruning;
  command::SearchBar bar;
  mixed.search.progress = [&](int64_t done, int64_t all) { bar.show(done, all); };
  const SearchEnd end(options.time_limit);
  mixed.search.stop = [&] { return end.is_here(); };
  mixed.search.finals = finals_of(options, end);
  return plan_mixed(open, mixed, out);
}

// The Plan that the simulator takes, memory included. Strands are chosen when a Plan is made of a job.
Result<schedule_search::StrandsChoice> simulatable(const plan::Job& job, bool choose_strands) {
  schedule_search::StrandsChoice choice;
  if (choose_strands && job.parallelism.strands) {
    choice = TRY(schedule_search::choose_strands(job));
  } else {
    choice.plan = TRY(cost::make_plan(job));
  }
  TRY(schedule::check_memory(choice.plan, TRY(schedule::build(choice.plan))));
  return choice;
}

}  // namespace

Result<std::string> write_layout(const plan::Job& job, const std::string& path,
                                 const std::string& comment) {
  const bool as_plan = path.ends_with(".json");
  if (!as_plan && !path.ends_with(".toml")) {
    return unusable(fmt::format("--out {}: neither .json nor .toml", path),
                    "plan.json for a Plan, job.toml for a job with explicit parallelism");
  }
  const auto choice = simulatable(job, /*choose_strands*/ as_plan);
  const bool trainable = choice && choice->plan.devices() == std::ssize(choice->plan.ranks) &&
                         choice->plan.parallelism.zero == 0;
  const char* readers = trainable ? "estimate, traffic, simulate and train"
                        : choice  ? "estimate, traffic and simulate"
                                  : "estimate and traffic";
  if (!as_plan) {
    TRY(write_file(path, plan::to_toml_text(job, path, comment)));
    return fmt::format("wrote {}: a job with this parallelism, for tombolo {}", path, readers);
  }
  if (!choice) return fail(Error(choice.error()).during("writing " + path));
  TRY(write_file(path, plan::to_json_text(choice->plan)));
  if (!choice->line.empty()) command::note(choice->line);
  return fmt::format("wrote {}: a Plan, for tombolo {}", path, readers);
}

std::string stopped_text(double gap, search::Objective objective) {
  if (gap == 0) return "stopped; of what was not looked at, bounds say that nothing is better";
  return fmt::format(
      "stopped before the end: by the closed form, no plan has a {} more than {:.1f} % {}",
      objective == search::Objective::kCost ? "cost" : "time", 100 * gap, "below this one");
}

std::string time_source(const std::optional<Seconds>& simulated, Seconds closed_form) {
  if (!simulated) return " (closed form)";
  const double longer = *simulated / closed_form - 1;
  if (std::abs(longer) <= search::kApart) return " (simulated)";
  return fmt::format(" (simulated; {} by the closed form, {:.1f} % {})", brief(closed_form),
                     100 * std::abs(closed_form / *simulated - 1), longer > 0 ? "less" : "more");
}

Value finals_json(const search::FinalCounts& counts) {
  return Value::Table{{"simulated", counts.simulated},
                      {"of", counts.of},
                      {"more_than_2_percent_apart", counts.apart}};
}

Status plan(const PlanCommandOptions& given, std::ostream& out) {
  const auto begin = std::chrono::steady_clock::now();
  PlanCommandOptions options = given;
  const auto objective = from_name<search::Objective>(options.objective);
  if (!objective) {
    return unusable(fmt::format("--objective {}: there is no such objective", options.objective),
                    "--objective time, cost or throughput");
  }
  const cost::Law law = TRY(cost::find_law(options.law));
  options.threads = threads_or_all(options.threads);
  const plan::JobValue job = TRY(plan::read_job_value(options.job));
  if (job.from_plan) {
    return unusable(
        fmt::format("{}: a Plan has decided its parallelism already", options.job),
        fmt::format("the job it was made from; or tombolo estimate {0} for its figures, "
                    "tombolo convert {0} --to megatron for other programs",
                    options.job));
  }
  plan::OpenJob open = TRY(plan::open_job_from_value(job.value, options.job));
  for (cluster::Datacenter& each : open.job.cluster.datacenters)
    each.device.memory = each.device.memory * (1 - options.memory_margin);
  // --across compares all modes; without it no stage has replicas in several datacenters.
  std::string convergence_profile;
  if (open.job.exchange && open.job.exchange->mode_is_auto) {
    convergence_profile = open.job.exchange->convergence_profile;
    open.job.exchange.reset();
    if (!options.across)
      command::note("[exchange] mode = \"auto\" is left out: modes are compared by --across");
  }
  if (options.tokens <= 0 && (options.deadline.value > 0 || options.budget.value > 0))
    return unusable("--deadline and --budget are to a target, which is not said",
                    "--across --tokens 2e12");
  if (open.job.cluster.datacenters.size() > 1 || law != cost::Law::kTombolo) {
    command::note_lost_strands(open.job);
    open.job.parallelism.strands = false;
    open.job.parallelism.strands_profile.clear();
  }
  if (open.job.parallelism.strands) TRY(strand::profile_of(open.job));
  if (open.job.selection)
    command::note("[selection] has no effect: tombolo select chooses datacenters by it");
  if (options.across) {
    if (options.simulate_for != PlanCommandOptions{}.simulate_for)
      command::note("--simulate-for has no effect with --across, which simulates all ways");
    if (law != cost::Law::kTombolo)
      return unusable("--across: ways are simulated, which the law tombolo prices",
                      "--law tombolo");
    if (options.all_devices || !options.export_to.empty())
      return unusable(fmt::format("{} says nothing of --across, whose ways use what they need",
                                  options.all_devices ? "--all-devices" : "--export"),
                      "--out plan.json or job.toml");
    return plan_across(open, options, convergence_profile, out);
  }
  if (options.tokens > 0 || !options.local_steps.empty() || !options.steps_factor.empty() ||
      options.way > 1) {
    return unusable("--tokens, --steps-factor, --local-steps and --way are of --across",
                    "--across");
  }
  if (open.job.cluster.datacenters.size() > 1) return plan_over_datacenters(open, options, out);
  std::optional<AtomicFile> page = TRY(open_page(options.report, options.out));
  BestPlan found;
  {
    command::SearchBar bar;
    const SearchEnd end(options.time_limit);
    found = TRY(search::best_plan(
        open, {.law = law,
               .objective = *objective,
               .top = options.top,
               .threads = options.threads,
               .prune = !options.no_pruning,
               .finals = finals_of(options, end),
               .limits = {.all_devices = options.all_devices},
               .progress = [&](int64_t done, int64_t all) { bar.show(done, all); },
               .stop = [&] { return end.is_here(); }}));
  }
  const RankedPlan& best = found.top.front();
  std::optional<WithStrands> strands =
      law == cost::Law::kTombolo ? schedule_search::with_strands(best.job) : std::nullopt;
  if (!strands && open.job.parallelism.strands)
    strands = WithStrands{.offer = {.why_not = schedule_search::kNoLayerCommunicates}};
  const std::chrono::duration<double> wall = std::chrono::steady_clock::now() - begin;
  search::Export exported;
  if (!options.export_to.empty()) exported = TRY(search::export_job(best.job, options.export_to));
  Value::Table answer = to_json(found, options, wall.count());
  if (strands) answer.emplace_back("strands", strands_json(*strands));
  if (page) TRY(page->write(plan_page(answer, open.job, best.job, options.command)));
  std::string written;
  if (!options.out.empty()) {
    written = TRY(write_layout(best.job, options.out, comment_of(best, options)));
  }
  if (page) TRY(page->commit());

  if (options.json) {
    if (!options.export_to.empty()) {
      Value::Array notes;
      for (const std::string& note : exported.notes) notes.push_back(note);
      answer.emplace_back(
          "export",
          Value::Table{{"format", options.export_to}, {"text", exported.text}, {"notes", notes}});
    }
    command::print_json(out, answer);
    return {};
  }
  print_text(out, open.job, found, options, wall.count());
  if (strands) print_strands(out, *strands, best.simulated);
  if (!written.empty()) out << written << "\n";
  if (page) out << "wrote " << options.report << "\n";
  if (!options.export_to.empty()) {
    out << "\n# " << options.export_to << "\n" << exported.text;
    for (const std::string& note : exported.notes) out << "# note: " << note << "\n";
  }
  return {};
}

command::Command add_plan(CLI::App& app) {
  auto options = std::make_shared<PlanCommandOptions>();
  CLI::App* words =
      command::add_command(app, {"plan", command::kPlanning,
                                 "the best parallelism of a job, its rivals, and why not others",
                                 "tombolo plan examples/planning/llama3-70b/job.toml --top 3"});
  command::add_job(words, options->job, "job file (TOML); of a Plan its model and cluster");
  command::heading(words, "How it is searched");
  command::suggestions(words->add_option("--law", options->law, "law that prices a layout"),
                       {"tombolo", "rail-only"});
  command::suggestions(words->add_option("--objective", options->objective, "what is best"),
                       {"time", "cost", "throughput"});
  words->add_flag("--all-devices", options->all_devices, "let no device stay idle");
  words->add_flag("--no-pruning", options->no_pruning,
                  "evaluate every configuration: slower, the same answer");
  words
      ->add_option("--memory-margin", options->memory_margin,
                   "what part of each device's memory stays free, as 0.05: devices count as so "
                   "much smaller, in what --out writes too")
      ->check(CLI::Range(0.0, 0.9));
  command::add_time(words, "--simulate-for", options->simulate_for,
                    "core time for simulating the last candidates; 0: rank by the closed form", 0_s,
                    86'400_s);
  command::add_time(words, "--time-limit", options->time_limit,
                    "answer with the best so far; 0: search to the end. So does Ctrl-C", 0_s,
                    1e6_s);
  command::add_threads(words, options->threads, 0);
  command::heading(words, "Which way across datacenters");
  words->add_flag("--across", options->across,
                  "compare one datacenter alone, stages in different ones, and whole pipelines in "
                  "each with every [exchange]");
  command::positive(words->add_option("--tokens", options->tokens,
                                      "also the time and the cost of that many tokens, as 2e12"));
  command::add_time(words, "--deadline", options->deadline,
                    "the target in so much time, as \"720 h\"; 0: any", 0_s, 1e9_s);
  words
      ->add_option_function<std::string>(
          "--budget",
          [options](const std::string& word) {
            const Result<Dollars> budget = parse_lone_number<Dollars>(word, "USD");
            if (!budget) throw CLI::ValidationError("--budget", budget.error().text());
            options->budget = *budget;
          },
          "the target for so much, as \"50000 USD\"")
      ->type_name("USD");
  words->add_option("--way", options->way, "the row that --out writes")
      ->check(CLI::Range(int64_t{1}, int64_t{1000}));
  command::suggestions(
      words->add_option("--steps-factor", options->steps_factor,
                        "steps to the same loss: by their law, as many in all modes, or of sparse "
                        "updates by the file of a profile of tombolo tune; left out: by the job's "
                        "convergence_profile, or by their law"),
      {"law", "off"});
  words
      ->add_option("--local-steps", options->local_steps,
                   "also local steps with that many from one outer step to the next")
      ->delimiter(',')
      ->check(CLI::Range(int64_t{1}, plan::kLocalStepsMax));
  command::heading(words, command::kComesOut);
  words->add_option("--top", options->top, "how many layouts to show")->check(CLI::Range(1, 10000));
  words
      ->add_option(
          "--out", options->out,
          "write the best for all other commands: plan.json (tombolo help plan-file) or job.toml")
      ->type_name("FILE");
  command::suggestions(words->add_option("--export", options->export_to,
                                         "print the best as options of this trainer"),
                       {"megatron", "torchtitan"});
  command::add_report(words, options->report, "map, times, costs and reasons");
  command::add_json(words, options->json);
  return {words, [options, words](std::ostream& out) {
            options->command = command::line_given(*words);
            return plan(*options, out);
          }};
}

}  // namespace tombolo::decide_commands
