#include "decide/schedule_search/strands_choice.h"

#include <algorithm>

#include "predict/cost/price_plan.h"
#include "predict/sim/simulate.h"
#include "spec/plan/layer_pair.h"
#include "spec/schedule/schedule.h"

namespace tombolo::schedule_search {
namespace {

plan::Job folded(const plan::Job& job, layout::ScheduleKind schedule) {
  plan::Job out = job;
  if (out.parallelism.schedule == schedule) return out;
  // Numbers of layers are of stages that are no longer there.
  if (out.parallelism.mapping() != layout::StageMapping::kFold)
    out.parallelism.layers_per_stage.clear();
  out.parallelism.schedule = schedule;
  out.parallelism.virtual_stages = 2;
  return out;
}

struct Played {
  plan::Plan plan;
  sim::Simulation simulation;

  Seconds time() const { return seconds(simulation.iteration); }
};

Result<Played> play(plan::Plan plan) {
  constexpr double kPassesMax = 10 * sim::kPassesPerSecond;
  TRY(schedule::check_memory(plan, TRY(schedule::build(plan))));
  const double passes = static_cast<double>(plan.microbatches()) *
                        static_cast<double>(plan.stages.size()) * plan.replicas();
  if (passes > kPassesMax) {
    return unusable(fmt::format("{:.3g} passes are too many to play here", passes),
                    "tombolo plan --out job.toml, and tombolo simulate --policy best");
  }
  sim::Simulation simulation = TRY(sim::simulate(plan, {.alike = sim::Alike::kOnce}));
  return Played{std::move(plan), std::move(simulation)};
}

Result<Played> play_folded(const plan::Job& job, const plan::Hardware* hardware,
                           const std::optional<plan::LayerPair>& layer) {
  plan::Plan plan = TRY(cost::make_plan(job, hardware));
  if (layer) plan.pairs = plan::pair_costs(plan, *layer);
  return play(std::move(plan));
}

}  // namespace

std::optional<WithStrands> with_strands(const plan::Job& job,
                                        const std::optional<layout::ScheduleKind>& only,
                                        const plan::Hardware* hardware) {
  const layout::Parallelism& p = job.parallelism;
  if (p.tensor == 1 && p.context == 1 && p.expert == 1) return std::nullopt;
  Result<strand::PairOffer> offer = strand::offer_pairs(job);
  if (!offer) return WithStrands{.offer = {.why_not = offer.error().message}};
  WithStrands with{.offer = *std::move(offer)};
  if (!with.offer.layer) return with;
  for (const layout::ScheduleTraits& row : layout::schedules_with(layout::kPairs)) {
    if (only && *only != row.kind) continue;
    Result<Played> paired = play_folded(folded(job, row.kind), hardware, with.offer.layer);
    if (!paired) {
      with.obstacle = paired.error().message;
      continue;
    }
    const Seconds time = paired->time();
    const Result<Played> apart = play_folded(folded(job, row.kind), hardware, std::nullopt);
    if (apart && apart->time() <= time) {
      with.obstacle = fmt::format(
          "schedule {} takes {} with its pairs and {} without: the next rank waits for both of a "
          "pair, and there are too few microbatches to make up for it",
          row.name, brief(time), brief(apart->time()));
      continue;
    }
    if (with.iteration && *with.iteration <= time) continue;
    with.schedule = row.name;
    with.iteration = time;
    with.one_after_the_other = apart ? apart->time() : 0_s;
    const std::vector<Bytes>& peaks = paired->simulation.peak_memory;
    with.peak_memory = *std::max_element(peaks.begin(), peaks.end());
    with.plan = std::move(paired->plan);
  }
  return with;
}

Result<StrandsChoice> choose_strands(const plan::Job& asked, const plan::Hardware* hardware) {
  plan::Job job = asked;
  job.parallelism.strands = false;
  if (job.stage_times) {
    return unusable(
        fmt::format("{}: parallelism.strands = true: [stage_times] are of whole stages, "
                    "and strands are of layers",
                    job.file),
        "schedule = \"dualpipev\" and [stage_times] pair = \"3 ms\", or no [stage_times]");
  }
  TRY(strand::profile_of(job));
  StrandsChoice choice{TRY(cost::make_plan(job, hardware)), ""};
  const auto off = [&](const std::string& why) {
    choice.line = "[parallelism] strands: off: " + why;
    return choice;
  };
  if (!strand::may_offer(job, choice.plan.cost_source)) {
    return off(
        fmt::format("stage times are from {}, which has no times of operators that run "
                    "together; strands_profile has",
                    to_name(choice.plan.cost_source)));
  }
  if (job.parallelism.zero == 3 &&
      job.cluster.datacenters.front().device.kind == cluster::DeviceKind::kCpu) {
    return off("zero = 3: a pass drops the parameters that the other one of a pair computes with");
  }
  const layout::ScheduleKind schedule = job.parallelism.schedule;
  const bool has_pairs = layout::traits_of(schedule).has(layout::kPairs);
  const std::optional<WithStrands> with =
      with_strands(job, has_pairs ? std::optional(schedule) : std::nullopt, hardware);
  if (!with) return off(kNoLayerCommunicates);
  if (!with->offer.layer) return off(with->offer.why_not);
  if (!with->iteration) return off(with->obstacle);
  const Result<Played> alone = play(choice.plan);
  if (alone && alone->time() <= *with->iteration) {
    return off(fmt::format("schedule {} with pairs takes {}, schedule {} without {}",
                           with->schedule, brief(*with->iteration), choice.plan.schedule_name(),
                           brief(alone->time())));
  }
  choice.line = fmt::format(
      "[parallelism] strands: on: schedule {}, {} predicted; {}; gain of a layer {:.3g}, above "
      "{:.3g} in 19 cases of 20",
      with->schedule, brief(*with->iteration),
      alone ? fmt::format("{} with schedule {} without", brief(alone->time()),
                          choice.plan.schedule_name())
            : fmt::format("without: {}", alone.error().message),
      with->offer.gain.expected, with->offer.gain.low);
  if (job.parallelism.layers_per_stage.size() != with->plan->parallelism.layers_per_stage.size())
    choice.line += "; layers_per_stage is of stages that are no longer there, and left out";
  if (const int64_t asked = job.parallelism.virtual_stages,
      has = with->plan->parallelism.virtual_stages;
      asked > 1 && asked != has)
    choice.line += fmt::format("; virtual_stages = {} in the place of {}", has, asked);
  choice.plan = *with->plan;
  return choice;
}

}  // namespace tombolo::schedule_search
