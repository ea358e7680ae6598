#include "decide/schedule_search/rule_search.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <tuple>

#include "base/parallel.h"

namespace tombolo::schedule_search::detail {
namespace {

// Positions are varied in at most this many groups; one per datacenter if those are fewer.
constexpr size_t kGroupsMax = 8;

auto key_of(const schedule::Rules& rules) {
  std::vector<int64_t> release;
  for (const SimDuration& each : rules.release) release.push_back(each.ns);
  return std::tuple{rules.link,           rules.compute,   rules.recompute, rules.weights,
                    rules.split_backward, rules.in_flight, release,         rules.patience};
}

}  // namespace

KnobSpace::KnobSpace(const schedule::PipelineShape& shape, const schedule::Times& times,
                     const schedule::Memory& memory)
    : shape_(shape), memory_(memory) {
  // From each stage to the end and back, and what the slowest resource takes per microbatch.
  double round_trip = 0, slowest = 1;
  std::vector<double> of_stage(static_cast<size_t>(shape.stages));
  std::vector<double> work(static_cast<size_t>(shape.positions()));
  size_t boundaries = 0;
  for (int32_t s = shape.stages - 1; s >= 0; --s) {
    const schedule::StageDurations& stage = times.stages[static_cast<size_t>(s)];
    const double recompute = shape.recomputes(s) ? static_cast<double>(stage.recompute.ns) : 0;
    const double own = static_cast<double>(stage.forward.ns) +
                       static_cast<double>(stage.backward().ns) + recompute;
    work[static_cast<size_t>(shape.position_of(s))] += own;
    if (shape.crosses(s)) {
      const auto transfer = static_cast<double>(times.transfer_over(s).ns);
      const auto latency = static_cast<double>(times.latency_over(s).ns);
      round_trip += 2 * (transfer + latency);
      slowest = std::max(slowest, transfer * (shape.shares(s) ? shape.cell : 1));
      if (shape.shares(s)) slowest_transfer_ = std::max(slowest_transfer_, times.transfer_over(s));
      boundaries += transfer + latency > 0;
    }
    round_trip += own;
    of_stage[static_cast<size_t>(s)] = round_trip;
  }
  for (const double each : work) slowest = std::max(slowest, each);
  round_trips_.resize(static_cast<size_t>(shape.positions()));
  steps_to_end_.resize(round_trips_.size());
  for (int32_t s = 0; s < shape.stages; ++s) {
    const auto position = static_cast<size_t>(shape.position_of(s));
    round_trips_[position] += of_stage[static_cast<size_t>(s)] / slowest;
    steps_to_end_[position] += static_cast<double>(shape.stages - s) / shape.chunks;
  }
  groups_ = std::clamp<size_t>(boundaries + 1, 1,
                               std::min(kGroupsMax, static_cast<size_t>(shape.positions())));
}

size_t KnobSpace::group_of(int32_t position) const {
  return static_cast<size_t>(position) * groups_ / static_cast<size_t>(shape_.positions());
}

schedule::Rules KnobSpace::rules(const Knobs& knobs) const {
  schedule::Rules rules;
  rules.link = knobs.link;
  rules.compute = knobs.compute;
  rules.recompute = knobs.recompute;
  rules.weights = knobs.weights;
  rules.split_backward = knobs.split_backward;
  rules.patience = knobs.patience;
  const int32_t all = shape_.microbatches * shape_.chunks;
  for (int32_t position = 0; position < shape_.positions(); ++position) {
    const auto p = static_cast<size_t>(position);
    const int32_t most = memory_.in_flight.empty() ? all : std::min(all, memory_.in_flight[p]);
    double depth =
        knobs.depth == kOneForwardOneBackward ? steps_to_end_[p] : knobs.depth * round_trips_[p];
    if (!knobs.depth_of_group.empty()) depth *= knobs.depth_of_group[group_of(position)];
    depth = std::clamp(std::ceil(depth - 1e-9), 1.0, double{1e9});
    rules.in_flight.push_back(std::min(
        most, static_cast<int32_t>(std::max<double>(depth, std::min(shape_.chunks, most)))));
  }
  if (knobs.release == 0 || shape_.cell == 1) return rules;
  const double step =
      knobs.release * static_cast<double>(slowest_transfer_.ns) * shape_.microbatches;
  for (int32_t c = 0; c < shape_.cell; ++c) {
    rules.release.push_back({static_cast<int64_t>(std::llround(step * c))});
  }
  return rules;
}

std::string KnobSpace::text(const Knobs& knobs) const {
  std::string out =
      knobs.compute == schedule::ComputeRule::kBackwardFirst ? "backward first" : "forward first";
  const schedule::Rules rules = this->rules(knobs);
  out += fmt::format(", {} in flight",
                     *std::max_element(rules.in_flight.begin(), rules.in_flight.end()));
  if (knobs.split_backward) {
    out += knobs.weights == schedule::WeightRule::kWhenIdle ? ", weights when idle"
                                                            : ", weights in gaps";
  }
  if (!shape_.recompute.empty()) {
    out += knobs.recompute == schedule::RecomputeRule::kAfterForwards ? ", recompute after forwards"
                                                                      : ", recompute just in time";
  }
  if (!shape_.shared.empty()) {
    out += knobs.link == schedule::LinkRule::kFirstCome  ? ", links first come"
           : knobs.link == schedule::LinkRule::kPipeline ? ", links by pipeline"
                                                         : ", links by microbatch";
  }
  if (!rules.release.empty()) out += ", released one after the other";
  if (knobs.patience > 0) out += ", patient";
  return out;
}

std::vector<Knobs> KnobSpace::grid(bool split_backward) const {
  std::vector<Knobs> out;
  for (const double depth : {kAllMemory, 1.0, 1.5, kOneForwardOneBackward, 0.75, 1.25, 2.0}) {
    for (const schedule::ComputeRule compute :
         {schedule::ComputeRule::kBackwardFirst, schedule::ComputeRule::kForwardFirst}) {
      Knobs knobs;
      knobs.depth = depth;
      knobs.compute = compute;
      knobs.split_backward = split_backward;
      out.push_back(knobs);
      if (!split_backward) continue;
      knobs.weights = schedule::WeightRule::kWhenItFits;
      out.push_back(knobs);
    }
  }
  return out;
}

std::vector<Knobs> KnobSpace::neighbours(const Knobs& knobs) const {
  std::vector<Knobs> out;
  const auto add = [&](const auto& change) {
    Knobs turned = knobs;
    change(turned);
    if (turned != knobs) out.push_back(turned);
  };
  if (!shape_.shared.empty() && shape_.cell > 1) {
    for (const schedule::LinkRule link :
         {schedule::LinkRule::kFirstCome, schedule::LinkRule::kPipeline,
          schedule::LinkRule::kMicrobatch}) {
      add([&](Knobs& k) { k.link = link; });
    }
    const double each = 1.0 / shape_.microbatches;
    for (const double release : {0.0, each, 2 * each, 0.25, 0.5, 1.0}) {
      add([&](Knobs& k) { k.release = release; });
    }
  }
  if (!shape_.recompute.empty()) {
    for (const schedule::RecomputeRule recompute :
         {schedule::RecomputeRule::kJustInTime, schedule::RecomputeRule::kAfterForwards}) {
      add([&](Knobs& k) { k.recompute = recompute; });
    }
  }
  for (const double patience : {0.0, 0.25, 0.5, 1.0}) add([&](Knobs& k) { k.patience = patience; });
  add([&](Knobs& k) {
    k.compute = k.compute == schedule::ComputeRule::kBackwardFirst
                    ? schedule::ComputeRule::kForwardFirst
                    : schedule::ComputeRule::kBackwardFirst;
  });
  if (knobs.split_backward) {
    add([&](Knobs& k) {
      k.weights = k.weights == schedule::WeightRule::kWhenIdle ? schedule::WeightRule::kWhenItFits
                                                               : schedule::WeightRule::kWhenIdle;
    });
  }
  for (const double factor : {0.8, 0.9, 1.1, 1.25, 1.6}) {
    if (knobs.depth > 0 && knobs.depth < kAllMemory) add([&](Knobs& k) { k.depth *= factor; });
  }
  if (groups_ == 1) return out;
  for (size_t group = 0; group < groups_; ++group) {
    for (const double factor : {0.75, 0.9, 1.1, 1.4}) {
      add([&](Knobs& k) {
        if (k.depth == kAllMemory) k.depth = 2;
        k.depth_of_group.resize(groups_, 1);
        k.depth_of_group[group] *= factor;
      });
    }
  }
  return out;
}

std::vector<Trial> search_rules(const schedule::PipelineShape& shape, const schedule::Times& times,
                                const schedule::Memory& memory, const RuleSearchOptions& options) {
  const KnobSpace space(shape, times, memory);
  std::set<decltype(key_of(schedule::Rules{}))> seen;
  std::vector<Trial> best;  // ascending, the first of equals first
  int64_t plays = 0;
  // Plays those that are new; says whether the best one is better now.
  const auto try_all = [&](const std::vector<Knobs>& settings) {
    std::vector<Trial> trials;
    std::vector<schedule::Rules> rules;
    for (const Knobs& knobs : settings) {
      schedule::Rules each = space.rules(knobs);
      if (plays == options.plays_max || !seen.insert(key_of(each)).second) continue;
      ++plays;
      trials.push_back({knobs, {}});
      rules.push_back(std::move(each));
    }
    parallel_for(trials.size(), options.threads,
                 [&](size_t i) { trials[i].play = schedule::play_cell(shape, times, rules[i]); });
    const SimDuration before = best.empty() ? SimDuration{-1} : best.front().play.makespan;
    for (Trial& trial : trials) {
      if (trial.play.finished) best.push_back(std::move(trial));
    }
    std::stable_sort(best.begin(), best.end(), [](const Trial& a, const Trial& b) {
      return a.play.makespan < b.play.makespan;
    });
    if (best.size() > options.keep) best.resize(options.keep);
    return !best.empty() && best.front().play.makespan != before;
  };
  const auto done = [&] {
    return plays >= options.plays_max ||
           (!best.empty() && best.front().play.makespan <= options.enough);
  };

  try_all(space.grid(options.split_backward));
  std::vector<Knobs> expanded;
  while (!done()) {
    const auto fresh = std::find_if(best.begin(), best.end(), [&](const Trial& trial) {
      return std::find(expanded.begin(), expanded.end(), trial.knobs) == expanded.end();
    });
    if (fresh == best.end()) break;
    expanded.push_back(fresh->knobs);
    try_all(space.neighbours(expanded.back()));
  }
  return best;
}

}  // namespace tombolo::schedule_search::detail
