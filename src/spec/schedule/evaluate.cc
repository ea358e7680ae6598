// When the actions of a schedule happen, given how long each takes.
#include <algorithm>
#include <map>

#include "base/check.h"
#include "spec/schedule/longest_path.h"
#include "spec/schedule/schedule.h"

namespace tombolo::schedule {

SimDuration StageDurations::of(action::ActionKind kind) const {
  using action::ActionKind;
  switch (kind) {
    case ActionKind::kForward:
      return forward;
    case ActionKind::kBackward:
      return backward();
    case ActionKind::kBackwardInput:
      return backward_input;
    case ActionKind::kBackwardWeight:
      return backward_weight;
    case ActionKind::kRecompute:
      return recompute;
    default:
      return {};
  }
}

PairDurations Times::pair(int32_t forward, int32_t backward) const {
  const auto key = [](const PairDurations& pair) { return std::pair{pair.forward, pair.backward}; };
  const auto found =
      std::lower_bound(pairs.begin(), pairs.end(), std::pair{forward, backward},
                       [&](const auto& pair, const auto& wanted) { return key(pair) < wanted; });
  if (found != pairs.end() && key(*found) == std::pair{forward, backward}) return *found;
  const SimDuration first = stages[static_cast<size_t>(forward)].forward;
  return {forward, backward, first, first + stages[static_cast<size_t>(backward)].backward()};
}

Times equal_times(int32_t stages, const StageDurations& each) {
  return {std::vector<StageDurations>(static_cast<size_t>(stages), each), {}};
}

StageDurations durations_of(const plan::StageCost& cost) {
  const SimDuration backward = round_to_ns(cost.backward);
  const SimDuration communication = round_to_ns(cost.backward_communication.total());
  const SimDuration weight =
      cost.backward_weight ? std::min(round_to_ns(*cost.backward_weight), backward)
                           : SimDuration{std::max<int64_t>(0, (backward - communication).ns) / 2};
  return {round_to_ns(cost.forward), backward - weight, weight, round_to_ns(cost.recompute)};
}

namespace {

void take_slower(StageDurations& so_far, const StageDurations& other) {
  so_far = {std::max(so_far.forward, other.forward),
            std::max(so_far.backward_input, other.backward_input),
            std::max(so_far.backward_weight, other.backward_weight),
            std::max(so_far.recompute, other.recompute)};
}

// Of the pipelines from `first` to before `end`.
Times slowest_of(const plan::Plan& plan, int32_t first, int32_t end) {
  const PipelineShape shape = shape_of(plan);
  const bool unlike = plan.on_unlike_devices();
  Times times;
  for (int32_t s = 0; s < shape.stages; ++s) {
    times.stages.push_back(durations_of(plan.cost_on(plan.rank_of(s, first), s)));
    for (int32_t replica = first + 1; replica < end && unlike; ++replica) {
      take_slower(times.stages.back(), durations_of(plan.cost_on(plan.rank_of(s, replica), s)));
    }
  }
  for (const plan::PairCost& pair : plan.pairs) {
    times.pairs.push_back({pair.forward, pair.backward, round_to_ns(pair.forward_end),
                           round_to_ns(pair.backward_end)});
  }
  const bool each = !shape.groups.empty() && end - first == shape.replicas;
  for (int32_t s = 0; s + 1 < shape.stages; ++s) {
    times.transfer.push_back({});
    times.latency.push_back({});
    if (each) {
      times.transfer_each.emplace_back(static_cast<size_t>(end));
      times.latency_each.emplace_back(static_cast<size_t>(end));
    }
    for (int32_t replica = first; replica < end && shape.crosses(s); ++replica) {
      const int32_t from = plan.rank_of(s, replica), to = plan.rank_of(s + 1, replica);
      const plan::Channel channel = shape.shares(s, replica)
                                        ? plan::shared_channel(plan, from, to)
                                        : plan::expected_channel(plan, from, to);
      const SimDuration transfer = round_to_ns(channel.serialisation(plan.boundary));
      const SimDuration latency = round_to_ns(channel.latency);
      times.transfer.back() = std::max(times.transfer.back(), transfer);
      times.latency.back() = std::max(times.latency.back(), latency);
      if (!each) continue;
      times.transfer_each.back()[static_cast<size_t>(replica)] = transfer;
      times.latency_each.back()[static_cast<size_t>(replica)] = latency;
    }
  }
  return times;
}

}  // namespace

Times times_of(const plan::Plan& plan) { return slowest_of(plan, 0, plan.replicas()); }
Times times_of(const plan::Plan& plan, int32_t replica) {
  return slowest_of(plan, replica, replica + 1);
}

namespace {

void check_times(const PipelineShape& shape, const Times& times) {
  CHECK(times.stages.size() == static_cast<size_t>(shape.stages), "times of {} stages for {}",
        times.stages.size(), shape.stages);
  for (const std::vector<SimDuration>* each : {&times.transfer, &times.latency}) {
    CHECK(each->empty() || each->size() + 1 == times.stages.size(),
          "{} transfers or latencies for {} stages", each->size(), shape.stages);
  }
  for (const auto* each : {&times.transfer_each, &times.latency_each}) {
    CHECK(each->empty() || each->size() + 1 == times.stages.size(),
          "{} transfers or latencies of each pipeline for {} stages", each->size(), shape.stages);
    for (const std::vector<SimDuration>& of_boundary : *each) {
      CHECK(of_boundary.size() == static_cast<size_t>(shape.replicas),
            "{} transfers or latencies for {} pipelines", of_boundary.size(), shape.replicas);
    }
  }
}

}  // namespace

trace::Trace evaluate(const Schedule& schedule, const PipelineShape& shape, const Times& times) {
  const Status sound = validate(schedule, shape);
  CHECK(sound, "{}", sound.error().text());
  check_times(shape, times);
  trace::Trace trace;
  detail::longest_path(schedule, shape, times, &trace);
  trace::normalize(trace);
  return trace;
}

SimDuration makespan_of(const Schedule& schedule, const PipelineShape& shape, const Times& times) {
  check_times(shape, times);
  const detail::LongestPath path = detail::longest_path(schedule, shape, times);
  CHECK(path.finished(schedule), "the ranks of \"{}\" wait for one another", schedule.name);
  return path.makespan;
}

Bubble bubble_of(const trace::Trace& trace) {
  struct Rank {
    SimTime start, end;
    SimDuration work;
  };
  std::map<int32_t, Rank> ranks;
  for (const trace::Interval& interval : trace.intervals) {
    if (interval.lane != trace::Lane::kCompute) continue;
    // In order of start; of a pair, the time in which both run counts once.
    Rank& rank =
        ranks.emplace(interval.rank, Rank{interval.start, interval.start, {}}).first->second;
    rank.work += std::max(SimDuration{}, interval.end - std::max(interval.start, rank.end));
    rank.end = std::max(rank.end, interval.end);
  }
  Bubble out;
  if (ranks.empty()) return out;
  SimTime start = ranks.begin()->second.start;
  SimTime end = ranks.begin()->second.end;
  SimDuration work;
  for (const auto& [number, rank] : ranks) {
    start = std::min(start, rank.start);
    end = std::max(end, rank.end);
    work += rank.work;
  }
  out.makespan = end - start;
  for (const auto& [number, rank] : ranks) {
    out.idle = std::max(out.idle, out.makespan - rank.work);
    out.inside = std::max(out.inside, (rank.end - rank.start) - rank.work);
  }
  const double all = static_cast<double>(out.makespan.ns) * static_cast<double>(ranks.size());
  out.ratio = 1 - static_cast<double>(work.ns) / all;
  return out;
}

}  // namespace tombolo::schedule
