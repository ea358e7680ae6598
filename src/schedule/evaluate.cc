// When the actions of a schedule happen, given how long each takes.
#include <algorithm>
#include <map>
#include <tuple>

#include "base/check.h"
#include "schedule/schedule.h"

namespace tombolo::schedule {
namespace {

using trace::Action;
using trace::ActionKind;

SimDuration duration_of(const Times& times, const Action& action) {
  const StageDurations& stage = times.stages[static_cast<size_t>(action.stage)];
  switch (action.kind) {
    case ActionKind::kForward:
      return stage.forward;
    case ActionKind::kBackward:
      return stage.backward();
    case ActionKind::kBackwardInput:
      return stage.backward_input;
    case ActionKind::kBackwardWeight:
      return stage.backward_weight;
    case ActionKind::kRecompute:
      return stage.recompute;
    default:
      return {};
  }
}

// A message by its sender's action: the receiver's stage lies on the other side of the boundary.
Action sent_as(const Action& receive) {
  if (receive.kind == ActionKind::kReceiveActivation) {
    return {ActionKind::kSendActivation, receive.stage - 1, receive.microbatch};
  }
  return {ActionKind::kSendGradient, receive.stage + 1, receive.microbatch};
}

class Evaluator {
 public:
  Evaluator(const Schedule& schedule, const Shape& shape, const Times& times)
      : schedule_(schedule), shape_(shape), times_(times), ranks_(schedule.ranks.size()) {}

  // Ranks go on in turn, each until it needs a message that is not sent yet.
  trace::Trace run() {
    bool moved = true;
    while (moved) {
      moved = false;
      for (size_t rank = 0; rank < ranks_.size(); ++rank) moved = advance(rank) || moved;
    }
    for (size_t rank = 0; rank < ranks_.size(); ++rank) {
      CHECK(ranks_[rank].next == schedule_.ranks[rank].size(), "rank {} cannot finish", rank);
    }
    trace::normalize(trace_);
    return std::move(trace_);
  }

 private:
  struct Rank {
    size_t next = 0;   // in its order
    SimTime now = {};  // its last computation ends, its last awaited message is there
  };

  bool advance(size_t index) {
    Rank& rank = ranks_[index];
    const Order& order = schedule_.ranks[index];
    const size_t before = rank.next;
    for (; rank.next < order.size(); ++rank.next) {
      const Action& action = order[rank.next];
      if (trace::is_send(action.kind)) {
        send(static_cast<int32_t>(index), action);
      } else if (trace::is_receive(action.kind)) {
        const auto arrival = arrivals_.find({replica(index), sent_as(action)});
        if (arrival == arrivals_.end()) break;
        rank.now = std::max(rank.now, arrival->second);
      } else {
        const SimTime end = rank.now + duration_of(times_, action);
        draw(trace::Lane::kCompute, static_cast<int32_t>(index), -1, action, rank.now, end);
        rank.now = end;
      }
    }
    return rank.next != before;
  }

  void send(int32_t rank, const Action& action) {
    const bool activation = action.kind == ActionKind::kSendActivation;
    const int32_t boundary = activation ? action.stage : action.stage - 1;
    const int32_t peer =
        shape_.rank_of(action.stage + (activation ? 1 : -1), rank % shape_.replicas);
    SimTime& free = free_[{rank, peer}];
    const SimTime start = std::max(free, ranks_[static_cast<size_t>(rank)].now);
    free = start + times_.transfer_over(boundary);
    arrivals_[{rank % shape_.replicas, action}] = free;
    draw(trace::Lane::kLink, rank, peer, action, start, free);
  }

  void draw(trace::Lane lane, int32_t rank, int32_t peer, const Action& action, SimTime start,
            SimTime end) {
    if (start == end) return;
    trace_.intervals.push_back({lane, rank, peer, action, 1, start, end, 0});
  }

  int32_t replica(size_t rank) const { return static_cast<int32_t>(rank) % shape_.replicas; }

  const Schedule& schedule_;
  const Shape& shape_;
  const Times& times_;
  std::vector<Rank> ranks_;
  std::map<std::pair<int32_t, int32_t>, SimTime> free_;     // when a directed link is
  std::map<std::pair<int32_t, Action>, SimTime> arrivals_;  // by replica and send
  trace::Trace trace_;
};

}  // namespace

Times equal_times(int32_t stages, const StageDurations& each) {
  return {std::vector<StageDurations>(static_cast<size_t>(stages), each), {}};
}

StageDurations durations_of(const cost::StageCost& cost) {
  const SimDuration backward = round_to_ns(cost.backward);
  const SimDuration weight{backward.ns / 2};
  return {round_to_ns(cost.forward), backward - weight, weight, round_to_ns(cost.recompute)};
}

Times times_of(const plan::Plan& plan) {
  Times times;
  for (const plan::Stage& stage : plan.stages) times.stages.push_back(durations_of(stage.cost));
  for (int32_t s = 0; s + 1 < static_cast<int32_t>(plan.stages.size()); ++s) {
    const int32_t from = plan.rank_of(s, 0);
    const int32_t to = plan.rank_of(s + 1, 0);
    times.transfer.push_back({});
    if (from == to) continue;
    const plan::Channel channel = plan::expected_channel(plan, from, to);
    times.transfer.back() = round_to_ns(channel.latency + channel.serialisation(plan.boundary));
  }
  return times;
}

trace::Trace evaluate(const Schedule& schedule, const Shape& shape, const Times& times) {
  const Status sound = validate(schedule, shape);
  CHECK(sound, "{}", sound.error().text());
  CHECK(times.stages.size() == static_cast<size_t>(shape.stages), "times of {} stages for {}",
        times.stages.size(), shape.stages);
  CHECK(times.transfer.empty() || times.transfer.size() + 1 == times.stages.size(),
        "{} transfers for {} stages", times.transfer.size(), shape.stages);
  return Evaluator(schedule, shape, times).run();
}

Bubble bubble_of(const trace::Trace& trace) {
  struct Rank {
    SimTime start, end;
    SimDuration work;
  };
  std::map<int32_t, Rank> ranks;
  for (const trace::Interval& interval : trace.intervals) {
    if (interval.lane != trace::Lane::kCompute) continue;
    Rank& rank = ranks.emplace(interval.rank, Rank{interval.start, interval.end, {}}).first->second;
    rank.start = std::min(rank.start, interval.start);
    rank.end = std::max(rank.end, interval.end);
    rank.work += interval.end - interval.start;
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
