#include "decide/schedule_search/why_schedule.h"

#include <algorithm>
#include <optional>
#include <tuple>

#include "spec/schedule/schedule.h"

namespace tombolo::schedule_search {
namespace {

using action::Action;
using action::ActionKind;

// The message without which a computation cannot begin; none: the first forward, the last backward.
std::optional<Action> message_for(const Action& action) {
  switch (action.kind) {
    case ActionKind::kForward:
      return Action{ActionKind::kSendActivation, action.stage - 1, action.microbatch};
    case ActionKind::kBackward:
    case ActionKind::kBackwardInput:
    case ActionKind::kRecompute:
      return Action{ActionKind::kSendGradient, action.stage + 1, action.microbatch};
    default:
      return std::nullopt;
  }
}

std::string share(double part) { return fmt::format("{:.0f} %", 100 * part); }

// The slowest transfer between datacenters, and its way there and back.
struct Wan {
  SimDuration transfer, round_trip;
};
Wan slowest_wan(const plan::Plan& plan) {
  const schedule::Times times = schedule::times_of(plan);
  Wan out;
  for (int32_t s = 0; s + 1 < static_cast<int32_t>(plan.stages.size()); ++s) {
    const std::string& here = plan.ranks[static_cast<size_t>(plan.rank_of(s, 0))].datacenter;
    const std::string& next = plan.ranks[static_cast<size_t>(plan.rank_of(s + 1, 0))].datacenter;
    if (here == next) continue;
    const SimDuration one_way = times.transfer_over(s) + times.latency_over(s);
    if (one_way * 2 > out.round_trip) out = {times.transfer_over(s), one_way * 2};
  }
  return out;
}

}  // namespace

Waits waits_of(const trace::Trace& trace) {
  std::map<int32_t, std::string> datacenter;
  for (const trace::RankLabel& label : trace.header.ranks)
    datacenter[label.rank] = label.datacenter;
  std::map<std::pair<int32_t, Action>, const trace::Interval*> messages;  // by receiver
  std::map<int32_t, std::vector<const trace::Interval*>> computations;
  for (const trace::Interval& interval : trace.intervals) {
    if (interval.iteration != 1) continue;
    if (interval.lane == trace::Lane::kLink) {
      messages[{interval.peer, interval.action}] = &interval;
    } else if (interval.lane == trace::Lane::kCompute) {
      computations[interval.rank].push_back(&interval);
    }
  }
  Waits waits;
  const std::vector<trace::IterationTime> times = trace::iteration_times(trace);
  if (times.empty() || computations.empty()) return waits;
  const double span = seconds(times.front().end - times.front().start).value;
  std::map<std::pair<std::string, std::string>, std::map<int32_t, double>>
      idle;  // by link and rank
  for (const auto& [rank, intervals] : computations) {
    SimTime free = times.front().start;
    for (const trace::Interval* interval : intervals) {  // by start: the trace is normalized
      // Time in which both passes of a pair run counts once.
      waits.compute +=
          seconds(std::max(SimDuration{}, interval->end - std::max(interval->start, free))).value;
      const std::optional<Action> needs = message_for(interval->action);
      const auto message = needs ? messages.find({rank, *needs}) : messages.end();
      if (message != messages.end()) {
        const std::string& from = datacenter[message->second->rank];
        if (from != datacenter[rank]) {
          const SimTime there = std::min(message->second->end, interval->start);
          double& waited = idle[{from, datacenter[rank]}][rank];
          if (there > free) waited += seconds(there - free).value;
        }
      }
      free = std::max(free, interval->end);
    }
  }
  waits.compute /= span * static_cast<double>(computations.size());
  for (const auto& [link, by_rank] : idle) {
    double sum = 0;
    for (const auto& [rank, waited] : by_rank) sum += waited;
    waits.wan[link] = sum / (span * static_cast<double>(by_rank.size()));
  }
  return waits;
}

std::vector<std::string> why_faster(const PerformedSchedule& fast, const PerformedSchedule& slow) {
  const Waits with_fast = waits_of(*fast.trace);
  const Waits with_slow = waits_of(*slow.trace);
  std::vector<std::string> why;
  why.push_back(fmt::format("ranks compute {} of the time, with {} {}", share(with_fast.compute),
                            slow.name, share(with_slow.compute)));
  // The links that are waited for less, by how much less.
  std::vector<std::tuple<double, std::string>> relieved;
  for (const auto& [link, before] : with_slow.wan) {
    const auto found = with_fast.wan.find(link);
    const double after = found == with_fast.wan.end() ? 0 : found->second;
    if (before - after < 0.005) continue;
    relieved.emplace_back(
        after - before,
        fmt::format("{} idles {} waiting for {} -> {}, with {} {}", link.second, share(after),
                    link.first, link.second, slow.name, share(before)));
  }
  std::sort(relieved.begin(), relieved.end());
  constexpr size_t kLinksMax = 3;
  for (size_t i = 0; i < std::min(relieved.size(), kLinksMax); ++i) {
    why.push_back(std::get<1>(relieved[i]));
  }
  const Wan wan = slowest_wan(*fast.plan);
  const Wan wan_before = slowest_wan(*slow.plan);
  if (fast.in_flight > slow.in_flight && wan.round_trip.ns > 0) {
    why.push_back(
        fmt::format("{:.3g} instead of {:.3g} microbatches in flight cover the round trip of {}",
                    fast.in_flight, slow.in_flight, brief(seconds(wan.round_trip))));
  }
  if (wan.transfer < wan_before.transfer) {
    why.push_back(
        fmt::format("one transfer at a time has the WAN of all {} pipelines of a cell: "
                    "{} instead of {}",
                    fast.plan->parallelism.pipelines_per_cell(), brief(seconds(wan.transfer)),
                    brief(seconds(wan_before.transfer))));
  }
  if (!fast.plan->pairs.empty() && slow.plan->pairs.empty()) {
    why.push_back("a forward and a backward run concurrently, so that communication hides");
  }
  if (fast.splits && !slow.splits) {
    why.push_back("gradients of weights are put off until a rank would wait");
  }
  return why;
}

}  // namespace tombolo::schedule_search
