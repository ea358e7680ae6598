// What must hold of any schedule.
#include <array>
#include <map>

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

// Only known actions of this rank's stage, each once; the update at the end, and right before it
// the sum of gradients where there are replicas.
Result<Positions> locate(const Schedule& schedule, const Shape& shape, size_t rank) {
  const Order& order = schedule.ranks[rank];
  const int32_t stage = shape.stage_of(static_cast<int32_t>(rank));
  Positions at;
  for (size_t i = 0; i < order.size(); ++i) {
    const Action& action = order[i];
    const std::string text = to_text(action);
    if (action.stage != stage) return broken(rank, text + " belongs to another stage");
    if (action.kind == kEvaluate || action.kind == kCheckpoint) {
      return broken(rank, text + " does not belong into an iteration");
    }
    if (action.kind == kUpdate) {
      if (i + 1 < order.size()) return broken(rank, text + " must be the last action");
    } else if (action.kind == kReduceGradients) {
      if (shape.replicas == 1) return broken(rank, text + ": this stage has no replicas");
      if (i + 2 != order.size()) return broken(rank, text + " must come right before the update");
    } else if (action.microbatch < 0 || action.microbatch >= shape.microbatches) {
      return broken(
          rank, fmt::format("{}: there are micro-batches 0 to {}", text, shape.microbatches - 1));
    }
    const bool towards_next = action.kind == kSendActivation || action.kind == kReceiveGradient;
    const bool towards_previous = action.kind == kSendGradient || action.kind == kReceiveActivation;
    if ((towards_next && stage + 1 == shape.stages) || (towards_previous && stage == 0)) {
      return broken(rank, text + " has no stage at the other end");
    }
    if (action.kind == kRecompute && !shape.recomputes(stage)) {
      return broken(rank, text + ": this stage does not recompute");
    }
    if (!at.emplace(action, i).second) return broken(rank, text + " is there twice");
  }
  if (order.empty() || order.back().kind != kUpdate) {
    return broken(rank, "the optimizer update is missing at the end");
  }
  if (shape.replicas > 1 && !has(at, kReduceGradients, stage, -1)) {
    return broken(rank, "the replicas' gradients are not summed before the update");
  }
  return at;
}

// One micro-batch on one stage: everything is there, and each step follows what it needs.
Status check_microbatch(const Positions& at, const Shape& shape, size_t rank, int32_t microbatch) {
  const int32_t stage = shape.stage_of(static_cast<int32_t>(rank));
  const bool first = stage == 0;
  const bool last = stage + 1 == shape.stages;
  const bool recompute = shape.recomputes(stage);
  struct Step {
    ActionKind kind;
    bool expected;
  };
  const std::array<Step, 7> steps{{{kForward, true},
                                   {kBackward, true},
                                   {kRecompute, recompute},
                                   {kReceiveActivation, !first},
                                   {kSendActivation, !last},
                                   {kReceiveGradient, !last},
                                   {kSendGradient, !first}}};
  for (const Step& step : steps) {
    if (step.expected && !has(at, step.kind, stage, microbatch)) {
      return broken(rank, to_text({step.kind, stage, microbatch}) + " is missing");
    }
  }
  const std::array<std::pair<ActionKind, ActionKind>, 7> orders{
      {{kForward, kBackward},
       {kForward, kRecompute},
       {kRecompute, kBackward},
       {kReceiveActivation, kForward},
       {kForward, kSendActivation},
       {kReceiveGradient, recompute ? kRecompute : kBackward},
       {kBackward, kSendGradient}}};
  for (const auto& [before, after] : orders) {
    const auto one = at.find({before, stage, microbatch});
    const auto other = at.find({after, stage, microbatch});
    if (one != at.end() && other != at.end() && one->second > other->second) {
      return broken(rank,
                    fmt::format("{} comes before {}", to_text(other->first), to_text(one->first)));
    }
  }
  return {};
}

// The micro-batches of one kind, in order.
std::vector<int32_t> sequence_of(const Order& order, ActionKind kind) {
  std::vector<int32_t> out;
  for (const Action& action : order) {
    if (action.kind == kind) out.push_back(action.microbatch);
  }
  return out;
}

// Messages of a pair travel in the order of their sends; a receiver that asks for another order
// would wait for a message stuck behind one that it does not take.
Status check_pair(const Schedule& schedule, const Shape& shape, size_t sender, ActionKind send,
                  size_t receiver, ActionKind receive) {
  const std::vector<int32_t> sent = sequence_of(schedule.ranks[sender], send);
  const std::vector<int32_t> received = sequence_of(schedule.ranks[receiver], receive);
  for (size_t i = 0; i < sent.size(); ++i) {
    if (sent[i] == received[i]) continue;
    return broken(
        receiver,
        fmt::format(
            "its message {} from rank {} is {}, but it receives {}", i, sender,
            to_text({send, shape.stage_of(static_cast<int32_t>(sender)), sent[i]}),
            to_text({receive, shape.stage_of(static_cast<int32_t>(receiver)), received[i]})));
  }
  return {};
}

// Lets all ranks go on until none can. Orders of pairs agree, so counting messages is enough; sums
// of gradients come after all messages, so they cannot be in anybody's way.
Status check_finishes(const Schedule& schedule, const Shape& shape) {
  const auto replicas = static_cast<size_t>(shape.replicas);
  const size_t ranks = schedule.ranks.size();
  std::vector<size_t> next(ranks, 0);
  std::vector<std::array<int64_t, 2>> waiting(ranks, {0, 0});  // activations, gradients
  std::vector<size_t> awake;
  for (size_t rank = 0; rank < ranks; ++rank) awake.push_back(rank);
  while (!awake.empty()) {
    const size_t rank = awake.back();
    awake.pop_back();
    const Order& order = schedule.ranks[rank];
    for (; next[rank] < order.size(); ++next[rank]) {
      const ActionKind kind = order[next[rank]].kind;
      if (trace::is_receive(kind)) {
        int64_t& messages = waiting[rank][kind == kReceiveGradient];
        if (messages == 0) break;
        --messages;
      } else if (trace::is_send(kind)) {
        const size_t peer = kind == kSendActivation ? rank + replicas : rank - replicas;
        ++waiting[peer][kind == kSendGradient];
        awake.push_back(peer);
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
                                schedule.ranks.size(), shape.stages, shape.replicas));
  }
  for (size_t rank = 0; rank < schedule.ranks.size(); ++rank) {
    const Positions at = TRY(locate(schedule, shape, rank));
    for (int32_t m = 0; m < shape.microbatches; ++m) {
      TRY(check_microbatch(at, shape, rank, m));
    }
  }
  const auto replicas = static_cast<size_t>(shape.replicas);
  for (size_t rank = 0; rank + replicas < schedule.ranks.size(); ++rank) {
    const size_t next = rank + replicas;
    TRY(check_pair(schedule, shape, rank, kSendActivation, next, kReceiveActivation));
    TRY(check_pair(schedule, shape, next, kSendGradient, rank, kReceiveGradient));
  }
  return check_finishes(schedule, shape);
}

}  // namespace tombolo::schedule
