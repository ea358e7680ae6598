#include "ui/predict_commands/policy_choice.h"

#include "base/check.h"
#include "base/text_table.h"
#include "predict/sim/simulate.h"
#include "spec/plan/layer_pair.h"
#include "spec/schedule/policy.h"
#include "spec/schedule/schedule.h"
#include "spec/trace/trace_file.h"
#include "ui/command/answer.h"
#include "ui/command/input.h"

namespace tombolo::predict_commands {
namespace {

using schedule_search::BestSchedule;
using schedule_search::ScheduleCandidate;

// ---- what is asked for ----

Result<plan::Plan> named_plan(const std::string& name, const plan::Plan& plan) {
  plan::Plan out = TRY(schedule_search::with_schedule(plan, TRY(layout::find_schedule(name))));
  out.pairs = schedule_search::pairs_for(plan, out, std::nullopt);
  TRY(schedule::check_memory(out, TRY(schedule::build(out))));
  return out;
}

// Strands of the law's layer; nothing if another source priced the stages, or if no layer
// communicates inside and strands were not requested.
Result<std::optional<strand::PairOffer>> offer_for(const SimulateOptions& options,
                                                   const plan::Plan& plan) {
  const layout::Parallelism& p = plan.parallelism;
  const bool communicates = p.tensor > 1 || p.context > 1 || p.expert > 1;
  const bool alike = p.tensor_per_stage.empty();
  if (!options.strands && !(communicates && alike)) return std::nullopt;
  Result<plan::Job> reread = command::reread_job(options.in.input);
  if (!reread && plan.cost_source != plan::CostSource::kTombolo) return std::nullopt;
  const plan::Job job = TRY(std::move(reread));
  if (!strand::may_offer(job, plan.cost_source)) return std::nullopt;
  return std::optional(TRY(during(strand::offer_pairs(job), "planning strands of a layer")));
}

// The schedule is found again for measured times. What was performed so far is the Plan's own
// schedule if it carries one, else the best for the planned times.
Result<ChosenPolicy> adjust(const plan::Plan& plan, const std::string& trace_file,
                            schedule_search::BestScheduleOptions options) {
  if (!plan.pairs.empty()) {
    return unusable(
        "--measured: the Plan has pairs, and passes that run together do not tell what "
        "they take alone",
        "a Plan without pairs, and a Trace of it");
  }
  const trace::Trace trace = TRY(trace::read_trace(trace_file));
  const schedule_search::PositionWork planned = schedule_search::work_of(plan);
  const schedule_search::PositionWork measured = TRY(during(
      schedule_search::measured_work(trace, planned), "reading stage times of " + trace_file));
  const plan::Plan before =
      plan.given ? plan : TRY(schedule_search::best_schedule(plan, options)).plan;
  options.incumbent = schedule_search::with_work(before, measured);
  ChosenPolicy chosen;
  chosen.best =
      TRY(schedule_search::best_schedule(schedule_search::with_work(plan, measured), options));
  chosen.plan = chosen.best->plan;
  const ScheduleCandidate& incumbent = chosen.best->candidates[*chosen.best->incumbent_index];
  chosen.adjustment = Adjustment{schedule_search::slowest(measured, planned),
                                 TRY(sim::iteration_time(before)), *incumbent.iteration};
  return chosen;
}

// ---- text ----

std::string microbatches(const ScheduleCandidate& candidate) {
  return candidate.in_flight ? fmt::format("{:.3g}", *candidate.in_flight) : "-";
}

void add_candidate(TextTable& table, const ScheduleCandidate& candidate, const char* mark) {
  const auto time = [](const std::optional<SimDuration>& duration) {
    return duration ? brief(seconds(*duration)) : std::string("-");
  };
  std::string note = candidate.obstacle;
  if (candidate.splits && note.empty()) note = "backwards in halves";
  table.row({mark, time(candidate.iteration), time(candidate.makespan), microbatches(candidate),
             candidate.name + (note.empty() ? "" : ": " + note)});
}

// What was gained over the published schedules, by simulated times.
void print_gain(std::ostream& out, const BestSchedule& best) {
  const auto told = [](const ScheduleCandidate& candidate) {
    return fmt::format("{} ({})", candidate.name, brief(seconds(*candidate.iteration)));
  };
  const auto saved = [](const ScheduleCandidate& now, const ScheduleCandidate& then) {
    return fmt::format("{:.1f} % less",
                       100 * schedule_search::time_saved(*now.iteration, *then.iteration));
  };
  const ScheduleCandidate* baseline = best.baseline();
  if (baseline == &best.winner()) {
    out << "  published; nothing that was found takes less on the same links and memory\n";
  } else if (baseline) {
    out << fmt::format(
        "  {} time than {}, the best published schedule on the same links and memory\n",
        saved(best.winner(), *baseline), told(*baseline));
  } else {
    out << "  no published schedule fits into the memory\n";
  }
  const ScheduleCandidate* unsplit = best.unsplit();
  if (!unsplit || !best.winner().splits) return;
  out << "  with backwards in one piece: " << told(*unsplit);
  const ScheduleCandidate* rival = best.unsplit_baseline();
  if (rival == unsplit) {
    out << ", published";
  } else if (rival) {
    out << fmt::format(", {} than {}, the best published of these", saved(*unsplit, *rival),
                       told(*rival));
  }
  out << "\n";
}

void print_best(std::ostream& out, const BestSchedule& best) {
  out << fmt::format("policy best: {}\n", best.winner().name);
  print_gain(out, best);
  out << fmt::format(
      "  {} above what no schedule of this layout can beat, {}: {}\n",
      command::percent(1 / (1 - schedule_search::time_saved(best.bound.value, best.iteration())) -
                       1),
      brief(seconds(best.bound.value)), best.bound.reason);
  if (*best.winner().makespan != best.iteration()) {
    out << fmt::format(
        "  simulated {}; alone on its links, and without the gradient all-reduce, it takes {}\n",
        brief(seconds(best.iteration())), brief(seconds(*best.winner().makespan)));
  }
  for (const std::string& why : best.why) out << "  why: " << why << "\n";
  TextTable table({"", "simulated", "alone", "in flight", text_column("candidate")});
  for (size_t i = 0; i < best.candidates.size(); ++i) {
    const bool baseline = best.baseline_index && *best.baseline_index == i;
    add_candidate(table, best.candidates[i], i == 0 ? "*" : baseline ? "b" : "");
  }
  out << table.text();
}

void print_proof(std::ostream& out, const schedule_proof::Exact& proof, SimDuration winner) {
  const std::string ours = brief(seconds(winner));
  if (!proof.proven) {
    out << fmt::format("  not proven after {} guesses: nothing takes less than {}; the winner {}\n",
                       grouped(proof.nodes), brief(seconds(proof.bound)), ours);
  } else if (proof.makespan == winner) {
    out << fmt::format(
        "  proven: no schedule of this layout and memory takes less than {} ({} "
        "guesses)\n",
        ours, grouped(proof.nodes));
  } else {
    out << fmt::format(
        "  proven: the shortest schedule of this layout and memory takes {}, the "
        "winner {}, {} more ({} guesses)\n",
        brief(seconds(proof.makespan)), ours,
        command::percent(seconds(winner) / seconds(proof.makespan) - 1), grouped(proof.nodes));
  }
}

void print_strands(std::ostream& out, const strand::PairOffer& offer) {
  if (!offer.layer) {
    out << fmt::format("  without strands: {}\n", offer.why_not);
    return;
  }
  out << fmt::format(
      "  strands: a layer's forward and backward take {} together, {} one after the "
      "other; gain over both alone {:.3f}, above {:.3f} in 19 cases of 20\n",
      brief(offer.layer->together), brief(offer.layer->apart), offer.gain.expected, offer.gain.low);
}

void check_found(const ChosenPolicy& chosen) {
  CHECK(!chosen.best || !chosen.best->candidates.empty(), "the best schedule of none");
  CHECK(!chosen.proof || chosen.best, "a proof of nothing");
  CHECK(!chosen.adjustment || chosen.best, "schedule \"{}\" was adjusted without a search",
        to_name(chosen.plan.parallelism.schedule));
}

// ---- JSON ----

Value time_json(const std::optional<SimDuration>& time) { return time ? Value(time->ns) : Value(); }

Value candidate_json(const ScheduleCandidate& candidate) {
  return Value::Table{
      {"name", candidate.name},
      {"family", candidate.family},
      {"schedule", std::string(to_name(candidate.variant.schedule))},
      {"virtual_stages", candidate.variant.chunks},
      {"sharing", std::string(to_name(candidate.variant.sharing))},
      {"cell", candidate.variant.cell},
      {"is_published", candidate.is_published},
      {"splits", candidate.splits},
      {"in_flight", candidate.in_flight ? Value(*candidate.in_flight) : Value()},
      {"simulated_ns", time_json(candidate.iteration)},
      {"alone_ns", time_json(candidate.makespan)},
      {"obstacle", candidate.obstacle.empty() ? Value() : Value(candidate.obstacle)}};
}

Value timed_json(const ScheduleCandidate* candidate) {
  if (!candidate) return {};
  return Value::Table{{"name", candidate->name}, {"iteration_ns", candidate->iteration->ns}};
}

// How much less time `now` takes than `then`, where both are there.
Value gain_json(const ScheduleCandidate* now, const ScheduleCandidate* then) {
  if (!now || !then) return {};
  return schedule_search::time_saved(*now->iteration, *then->iteration);
}

Value without_split_json(const BestSchedule& best) {
  const ScheduleCandidate* unsplit = best.unsplit();
  if (!unsplit) return {};
  return Value::Table{{"name", unsplit->name},
                      {"iteration_ns", unsplit->iteration->ns},
                      {"baseline", timed_json(best.unsplit_baseline())},
                      {"gain", gain_json(unsplit, best.unsplit_baseline())}};
}

}  // namespace

Result<ChosenPolicy> with_strands(const SimulateOptions& options, plan::Plan plan) {
  if (plan.given || !traits_of(plan.parallelism.schedule).has(layout::kPairs)) {
    return unusable(fmt::format("--strands: schedule = \"{}\" has no pairs of a forward and a "
                                "backward",
                                plan.schedule_name()),
                    "--policy dualpipev, or w, which fold the model");
  }
  const std::optional<strand::PairOffer> strands = TRY(offer_for(options, plan));
  if (!strands) {
    return unusable(fmt::format("--strands: stage times: {}; strands are priced by the law tombolo",
                                to_name(plan.cost_source)),
                    "[parallelism] strands_profile, or [stage_times] pair = \"3 ms\"");
  }
  if (!strands->layer) {
    return infeasible("--strands: " + strands->why_not, "passes one after the other");
  }
  plan.pairs = plan::pair_costs(plan, *strands->layer);
  TRY(schedule::check_memory(plan, TRY(schedule::build(plan))));
  return ChosenPolicy{.plan = std::move(plan), .best = {}, .strands = strands};
}

Result<ChosenPolicy> choose_policy(const SimulateOptions& options) {
  command::InputOptions in = options.in;
  in.without_strands = true;
  const plan::Plan plan = TRY(command::open_plan(in));
  schedule_search::BestScheduleOptions search{.split_backward = !options.no_split};
  if (options.policy != "best") {
    const plan::Plan named = TRY(named_plan(options.policy, plan));
    return options.strands ? with_strands(options, named) : ChosenPolicy{named, std::nullopt};
  }
  const std::optional<strand::PairOffer> strands = TRY(offer_for(options, plan));
  if (strands) search.layer_pair = strands->layer;
  ChosenPolicy chosen;
  if (!options.measured.empty()) {
    chosen = TRY(adjust(plan, options.measured, search));
  } else {
    chosen.best = TRY(schedule_search::best_schedule(plan, search));
    chosen.plan = chosen.best->plan;
  }
  chosen.strands = strands;
  if (options.prove) {
    chosen.proof = TRY(during(schedule_search::prove(*chosen.best, search.split_backward),
                              "proving what --policy best found"));
  }
  return chosen;
}

void print_policy(std::ostream& out, const ChosenPolicy& chosen) {
  check_found(chosen);
  if (chosen.adjustment) {
    const Adjustment& a = *chosen.adjustment;
    out << fmt::format("stragglers: the stage at position {} takes {:.2f} times what was planned\n",
                       a.slowest.position, a.slowest.factor);
    out << fmt::format(
        "  the schedule so far: {} as planned, {} with the measured times; found "
        "again: {}, {:.1f} % less\n",
        brief(seconds(a.planned)), brief(seconds(a.before)),
        brief(seconds(chosen.best->iteration())),
        100 * schedule_search::time_saved(chosen.best->iteration(), a.before));
  }
  if (chosen.best) print_best(out, *chosen.best);
  if (chosen.strands) print_strands(out, *chosen.strands);
  if (chosen.proof) print_proof(out, *chosen.proof, *chosen.best->winner().makespan);
}

namespace {

Value strands_json(const strand::PairOffer& offer) {
  if (!offer.layer) return Value::Table{{"why_not", offer.why_not}};
  return Value::Table{{"together_s", offer.layer->together.value},
                      {"apart_s", offer.layer->apart.value},
                      {"gain", offer.gain.expected},
                      {"gain_low", offer.gain.low},
                      {"memory_more_bytes", offer.memory_more.value}};
}

Value winner_json(const ChosenPolicy& chosen) {
  Value::Table json{{"winner", std::string(to_name(chosen.plan.parallelism.schedule))}};
  if (chosen.strands) json.emplace_back("strands", strands_json(*chosen.strands));
  return json;
}

}  // namespace

Value policy_json(const ChosenPolicy& chosen) {
  check_found(chosen);
  if (!chosen.best) return winner_json(chosen);
  const BestSchedule& best = *chosen.best;
  Value::Array candidates;
  for (const ScheduleCandidate& candidate : best.candidates) {
    candidates.push_back(candidate_json(candidate));
  }
  Value::Array why;
  for (const std::string& line : best.why) why.push_back(line);
  Value::Table json{{"winner", best.winner().name},
                    {"family", best.winner().family},
                    {"iteration_ns", best.iteration().ns},
                    {"baseline", timed_json(best.baseline())},
                    {"gain", gain_json(&best.winner(), best.baseline())},
                    {"without_split", without_split_json(best)},
                    {"lower_bound_ns", best.bound.value.ns},
                    {"bound_reason", best.bound.reason},
                    {"why", why},
                    {"candidates", candidates}};
  if (chosen.adjustment) {
    const Adjustment& a = *chosen.adjustment;
    json.emplace_back(
        "stragglers",
        Value::Table{{"position", static_cast<int64_t>(a.slowest.position)},
                     {"factor", a.slowest.factor},
                     {"planned_ns", a.planned.ns},
                     {"before_ns", a.before.ns},
                     {"after_ns", best.iteration().ns},
                     {"gain", schedule_search::time_saved(best.iteration(), a.before)}});
  }
  if (chosen.strands) json.emplace_back("strands", strands_json(*chosen.strands));
  if (chosen.proof) {
    json.emplace_back("optimum", Value::Table{{"proven", chosen.proof->proven},
                                              {"makespan_ns", chosen.proof->makespan.ns},
                                              {"lower_bound_ns", chosen.proof->bound.ns},
                                              {"winner_makespan_ns", best.winner().makespan->ns},
                                              {"guesses", chosen.proof->nodes}});
  }
  return json;
}

}  // namespace tombolo::predict_commands
