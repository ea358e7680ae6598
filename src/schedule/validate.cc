// What must hold of any schedule.
#include <array>
#include <map>
#include <tuple>

#include "schedule/schedule.h"

namespace tombolo::schedule {
namespace {

using trace::Action;
using trace::ActionKind;
using trace::to_text;
using enum trace::ActionKind;

// Where each action of one rank stands.
using Positions = std::map<Action, size_t>;

tl::unexpected<Error> broken(size_t rank, const std::string& why) {
  return unusable(fmt::format("the schedule is broken at rank {}: {}", rank, why));
}

bool has(const Positions& at, ActionKind kind, int32_t stage, int32_t microbatch) {
  return at.contains({kind, stage, microbatch});
}

bool towards_next(ActionKind kind) { return kind == kSendActivation || kind == kReceiveGradient; }

// The boundary between two stages that a message crosses: number s lies between s and s + 1.
int32_t boundary_of(const Action& message) {
  return message.stage - (towards_next(message.kind) ? 0 : 1);
}

// Only known actions of this rank's stages, each once; the updates at the end, and right before
// them the sums of gradients where there are replicas.
Result<Positions> locate(const Schedule& schedule, const Shape& shape, size_t rank) {
  const Order& order = schedule.ranks[rank];
  const int32_t position = static_cast<int32_t>(rank) / shape.replicas;
  const auto chunks = static_cast<size_t>(shape.chunks);
  Positions at;
  for (size_t i = 0; i < order.size(); ++i) {
    const Action& action = order[i];
    const std::string text = to_text(action);
    const bool exists = action.stage >= 0 && action.stage < shape.stages;
    if (!exists || shape.position_of(action.stage) != position) {
      return broken(rank, text + " belongs to another stage");
    }
    if (action.kind == kEvaluate || action.kind == kCheckpoint) {
      return broken(rank, text + " does not belong into an iteration");
    }
    if (action.kind == kUpdate) {
      if (i + chunks < order.size()) return broken(rank, text + " must be the last action");
    } else if (action.kind == kReduceGradients) {
      if (shape.replicas == 1) return broken(rank, text + ": this stage has no replicas");
      if (i + 2 * chunks < order.size() || i + chunks >= order.size()) {
        return broken(rank, text + " must come right before the update");
      }
    } else if (action.microbatch < 0 || action.microbatch >= shape.microbatches) {
      return broken(
          rank, fmt::format("{}: there are micro-batches 0 to {}", text, shape.microbatches - 1));
    }
    if (trace::is_communication(action.kind) && !shape.crosses(boundary_of(action))) {
      return broken(rank, text + " has no stage at the other end");
    }
    if (action.kind == kRecompute && !shape.recomputes(action.stage)) {
      return broken(rank, text + ": this stage does not recompute");
    }
    if (!at.emplace(action, i).second) return broken(rank, text + " is there twice");
  }
  for (const int32_t stage : shape.stages_at(position)) {
    if (!has(at, kUpdate, stage, -1)) {
      return broken(rank, "the optimizer update is missing at the end");
    }
    if (shape.replicas > 1 && !has(at, kReduceGradients, stage, -1)) {
      return broken(rank, "the replicas' gradients are not summed before the update");
    }
  }
  return at;
}

// One micro-batch on one stage: everything is there, and each step follows what it needs.
Status check_microbatch(const Positions& at, const Shape& shape, size_t rank, int32_t stage,
                        int32_t microbatch) {
  const bool from_previous = shape.crosses(stage - 1);
  const bool from_next = shape.crosses(stage);
  const bool recompute = shape.recomputes(stage);
  // Split where either half is there; the whole one must then not be.
  const bool split =
      has(at, kBackwardInput, stage, microbatch) || has(at, kBackwardWeight, stage, microbatch);
  if (split && has(at, kBackward, stage, microbatch)) {
    return broken(rank, to_text({kBackward, stage, microbatch}) + " is there whole and in halves");
  }
  const ActionKind backward = split ? kBackwardInput : kBackward;
  struct Step {
    ActionKind kind;
    bool expected;
  };
  const std::array<Step, 8> steps{{{kForward, true},
                                   {backward, true},
                                   {kBackwardWeight, split},
                                   {kRecompute, recompute},
                                   {kReceiveActivation, from_previous},
                                   {kSendActivation, from_next},
                                   {kReceiveGradient, from_next},
                                   {kSendGradient, from_previous}}};
  for (const Step& step : steps) {
    if (step.expected && !has(at, step.kind, stage, microbatch)) {
      return broken(rank, to_text({step.kind, stage, microbatch}) + " is missing");
    }
  }
  // Neighbouring stages of one rank hand over without a message.
  const int32_t next = stage + 1 < shape.stages && !from_next ? stage + 1 : stage;
  const std::array<std::pair<Action, Action>, 10> orders{
      {{{kForward, stage, microbatch}, {backward, stage, microbatch}},
       {{kForward, stage, microbatch}, {kRecompute, stage, microbatch}},
       {{kRecompute, stage, microbatch}, {backward, stage, microbatch}},
       {{backward, stage, microbatch}, {kBackwardWeight, stage, microbatch}},
       {{kReceiveActivation, stage, microbatch}, {kForward, stage, microbatch}},
       {{kForward, stage, microbatch}, {kSendActivation, stage, microbatch}},
       {{kReceiveGradient, stage, microbatch}, {backward, stage, microbatch}},
       {{backward, stage, microbatch}, {kSendGradient, stage, microbatch}},
       {{kForward, stage, microbatch}, {kForward, next, microbatch}},
       {{backward, next, microbatch}, {backward, stage, microbatch}}}};
  for (const auto& [before, after] : orders) {
    const auto one = at.find(before);
    const auto other = at.find(after);
    if (one != at.end() && other != at.end() && one->second > other->second) {
      return broken(rank,
                    fmt::format("{} comes before {}", to_text(other->first), to_text(one->first)));
    }
  }
  return {};
}

// Messages of each directed pair of ranks, as their senders or their receivers order them, by
// (sender, receiver, gradient). Each stands as the sender's action.
using Streams = std::map<std::tuple<int32_t, int32_t, bool>, std::vector<Action>>;

std::pair<Streams, Streams> streams_of(const Schedule& schedule, const Shape& shape) {
  Streams sent, received;
  for (size_t r = 0; r < schedule.ranks.size(); ++r) {
    const auto rank = static_cast<int32_t>(r);
    for (const Action& action : schedule.ranks[r]) {
      if (!trace::is_communication(action.kind)) continue;
      const int32_t other = action.stage + (towards_next(action.kind) ? 1 : -1);
      const int32_t peer = shape.rank_of(other, rank % shape.replicas);
      const bool gradient = action.kind == kSendGradient || action.kind == kReceiveGradient;
      if (trace::is_send(action.kind)) {
        sent[{rank, peer, gradient}].push_back(action);
      } else {
        received[{peer, rank, gradient}].push_back(
            {gradient ? kSendGradient : kSendActivation, other, action.microbatch});
      }
    }
  }
  return {sent, received};
}

// Messages of a pair travel in the order of their sends; a receiver that asks for another order
// would wait for a message stuck behind one that it does not take.
Status check_pairs(const Schedule& schedule, const Shape& shape) {
  const auto [sent, received] = streams_of(schedule, shape);
  for (const auto& [key, sends] : sent) {
    const auto& [sender, receiver, gradient] = key;
    const std::vector<Action>& receives = received.at(key);
    for (size_t i = 0; i < sends.size(); ++i) {
      if (sends[i] == receives[i]) continue;
      const Action asked{gradient ? kReceiveGradient : kReceiveActivation,
                         receives[i].stage + (gradient ? -1 : 1), receives[i].microbatch};
      return broken(static_cast<size_t>(receiver),
                    fmt::format("its message {} from rank {} is {}, but it receives {}", i, sender,
                                to_text(sends[i]), to_text(asked)));
    }
  }
  return {};
}

// Lets all ranks go on until none can. Orders of pairs agree, so counting messages is enough; sums
// of gradients come after all messages, so they cannot be in anybody's way.
Status check_finishes(const Schedule& schedule, const Shape& shape) {
  const size_t ranks = schedule.ranks.size();
  std::vector<size_t> next(ranks, 0);
  // By kind of message, and by whether the sender has the higher number.
  std::vector<std::array<int64_t, 4>> waiting(ranks, {0, 0, 0, 0});
  const auto slot = [](bool gradient, size_t sender, size_t receiver) {
    return (gradient ? 2u : 0u) + (sender > receiver ? 1u : 0u);
  };
  std::vector<size_t> awake;
  for (size_t rank = 0; rank < ranks; ++rank) awake.push_back(rank);
  while (!awake.empty()) {
    const size_t rank = awake.back();
    awake.pop_back();
    const Order& order = schedule.ranks[rank];
    for (; next[rank] < order.size(); ++next[rank]) {
      const Action& action = order[next[rank]];
      if (!trace::is_communication(action.kind)) continue;
      const int32_t other = action.stage + (towards_next(action.kind) ? 1 : -1);
      const auto peer =
          static_cast<size_t>(shape.rank_of(other, static_cast<int32_t>(rank) % shape.replicas));
      const bool gradient = action.kind == kSendGradient || action.kind == kReceiveGradient;
      if (trace::is_send(action.kind)) {
        ++waiting[peer][slot(gradient, rank, peer)];
        awake.push_back(peer);
      } else {
        int64_t& messages = waiting[rank][slot(gradient, peer, rank)];
        if (messages == 0) break;
        --messages;
      }
    }
  }
  for (size_t rank = 0; rank < ranks; ++rank) {
    if (next[rank] == schedule.ranks[rank].size()) continue;
    return broken(rank, fmt::format("it waits for {} forever: the ranks wait for one another",
                                    to_text(schedule.ranks[rank][next[rank]])));
  }
  return {};
}

}  // namespace

Status validate(const Schedule& schedule, const Shape& shape) {
  if (schedule.ranks.size() != static_cast<size_t>(shape.ranks())) {
    return unusable(fmt::format("the schedule has {} ranks for {} stages x {} replicas",
                                schedule.ranks.size(), shape.positions(), shape.replicas));
  }
  for (size_t rank = 0; rank < schedule.ranks.size(); ++rank) {
    const Positions at = TRY(locate(schedule, shape, rank));
    for (const int32_t stage : shape.stages_at(static_cast<int32_t>(rank) / shape.replicas)) {
      for (int32_t m = 0; m < shape.microbatches; ++m) {
        TRY(check_microbatch(at, shape, rank, stage, m));
      }
    }
  }
  TRY(check_pairs(schedule, shape));
  return check_finishes(schedule, shape);
}

}  // namespace tombolo::schedule
