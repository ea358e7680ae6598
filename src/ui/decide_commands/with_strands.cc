#include "ui/decide_commands/with_strands.h"

#include <algorithm>

#include "predict/cost/price_plan.h"
#include "predict/sim/simulate.h"
#include "spec/plan/layer_pair.h"
#include "spec/schedule/schedule.h"

namespace tombolo::decide_commands {
namespace {

// The job's model folded on the same ranks.
plan::Job folded(const plan::Job& job, layout::ScheduleKind schedule) {
  plan::Job out = job;
  out.parallelism.schedule = schedule;
  out.parallelism.virtual_stages = 2;
  out.parallelism.layers_per_stage.clear();
  return out;
}

Result<sim::Simulation> simulate_folded(const plan::Job& job,
                                        const std::optional<plan::LayerPair>& layer) {
  constexpr double kPassesMax = 10 * sim::kPassesPerSecond;
  plan::Plan plan = TRY(cost::make_plan(job));
  if (layer) plan.pairs = plan::pair_costs(plan, *layer);
  TRY(schedule::check_memory(plan, TRY(schedule::build(plan))));
  const double passes = static_cast<double>(plan.microbatches()) *
                        static_cast<double>(plan.stages.size()) * plan.replicas();
  if (passes > kPassesMax) {
    return unusable(fmt::format("{:.3g} passes are too many to play here", passes),
                    "tombolo plan --out job.toml, and tombolo simulate --policy best");
  }
  return sim::simulate(plan, {.alike = sim::Alike::kOnce});
}

}  // namespace

std::optional<WithStrands> with_strands(const plan::Job& job) {
  const layout::Parallelism& p = job.parallelism;
  if (p.tensor == 1 && p.context == 1 && p.expert == 1) return std::nullopt;
  Result<strand::PairOffer> offer = strand::offer_pairs(job);
  if (!offer) {
    return WithStrands{.offer = {.why_not = offer.error().message}};
  }
  WithStrands with{.offer = *std::move(offer)};
  if (!with.offer.layer) return with;
  for (const layout::ScheduleTraits& row : layout::schedules_with(layout::kPairs)) {
    const Result<sim::Simulation> simulation =
        simulate_folded(folded(job, row.kind), with.offer.layer);
    if (!simulation) {
      with.obstacle = simulation.error().message;
      continue;
    }
    const Seconds time = seconds(simulation->iteration);
    const Result<sim::Simulation> apart = simulate_folded(folded(job, row.kind), std::nullopt);
    if (apart && seconds(apart->iteration) <= time) {
      with.obstacle = fmt::format(
          "schedule {} takes {} with its pairs and {} without: the next rank waits for both of a "
          "pair, and few microbatches make up for it",
          row.name, brief(time), brief(seconds(apart->iteration)));
      continue;
    }
    if (with.iteration && *with.iteration <= time) continue;
    with.schedule = row.name;
    with.iteration = time;
    with.one_after_the_other = apart ? seconds(apart->iteration) : 0_s;
    with.peak_memory =
        *std::max_element(simulation->peak_memory.begin(), simulation->peak_memory.end());
  }
  return with;
}

void print_strands(std::ostream& out, const WithStrands& with,
                   const std::optional<Seconds>& simulated) {
  if (!with.offer.layer) {
    out << fmt::format("  without strands: {}\n", with.offer.why_not);
  } else if (!with.iteration) {
    out << fmt::format("  with strands: {}\n", with.obstacle);
  } else {
    const std::string less =
        simulated && *simulated > 0_s
            ? fmt::format(", {:.1f} % less", 100 * (1 - *with.iteration / *simulated))
            : "";
    const std::string without = with.one_after_the_other > 0_s
                                    ? fmt::format(" ({} without)", brief(with.one_after_the_other))
                                    : "";
    out << fmt::format(
        "  with strands: {} simulated{}, schedule {} with overlapped F&B{}, {} at the peak\n",
        brief(*with.iteration), less, with.schedule, without, brief(with.peak_memory));
  }
}

Value strands_json(const WithStrands& with) {
  if (!with.offer.layer) return Value::Table{{"why_not", with.offer.why_not}};
  Value::Table json{{"together_s", with.offer.layer->together.value},
                    {"apart_s", with.offer.layer->apart.value},
                    {"gain", with.offer.gain.expected},
                    {"gain_low", with.offer.gain.low}};
  if (!with.iteration) {
    json.emplace_back("obstacle", with.obstacle);
    return json;
  }
  json.emplace_back("schedule", with.schedule);
  json.emplace_back("simulated_s", with.iteration->value);
  if (with.one_after_the_other > 0_s) {
    json.emplace_back("without_pairs_s", with.one_after_the_other.value);
  }
  json.emplace_back("memory_bytes", with.peak_memory.value);
  return json;
}

}  // namespace tombolo::decide_commands
