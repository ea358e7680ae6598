// What must hold of any schedule.
#include <algorithm>
#include <array>

#include "spec/schedule/bidirectional.h"
#include "spec/schedule/longest_path.h"
#include "spec/schedule/schedule.h"

namespace tombolo::schedule {
namespace {

using action::Action;
using action::ActionKind;
using action::to_text;
using enum action::ActionKind;

tl::unexpected<Error> broken(size_t rank, const std::string& why) {
  return unusable(fmt::format("the schedule is broken at rank {}: {}", rank, why));
}

bool of_iteration(ActionKind kind) { return kind == kUpdate || kind == kReduceGradients; }

// Where each action of one rank stands in its order. Reused from rank to rank.
class Positions {
 public:
  static constexpr uint32_t kNowhere = static_cast<uint32_t>(-1);

  explicit Positions(const PipelineShape& shape) : shape_(shape) {}

  void clear() {
    at_.assign(static_cast<size_t>(shape_.chunks) * kKinds *
                   (static_cast<size_t>(shape_.microbatches) + 1),
               kNowhere);
  }
  // Of actions of this rank's stages, with a microbatch of the shape or none (-1).
  uint32_t& of(const Action& action) { return at_[index(action)]; }
  uint32_t of(const Action& action) const { return at_[index(action)]; }
  bool has(const Action& action) const { return of(action) != kNowhere; }

 private:
  static constexpr size_t kKinds = static_cast<size_t>(kReceiveGradient) + 1;

  size_t index(const Action& action) const {
    const auto chunk = static_cast<size_t>(action.stage / shape_.positions());
    return (chunk * kKinds + static_cast<size_t>(action.kind)) *
               (static_cast<size_t>(shape_.microbatches) + 1) +
           static_cast<size_t>(action.microbatch + 1);
  }

  const PipelineShape& shape_;
  std::vector<uint32_t> at_;
};

// Only known actions of this rank's stages, each once; the updates at the end, and right before
// them the gradient all-reduces where there are replicas.
Status locate(const Schedule& schedule, const PipelineShape& shape, size_t rank, Positions& at) {
  const RankActions& order = schedule.ranks[rank];
  const int32_t position = static_cast<int32_t>(rank) / shape.replicas;
  const int32_t microbatches = shape.microbatches_of(static_cast<int32_t>(rank) % shape.replicas);
  const auto chunks = static_cast<size_t>(shape.chunks);
  at.clear();
  for (size_t i = 0; i < order.size(); ++i) {
    const Action& action = order[i];
    const auto wrong = [&](const std::string& why) { return broken(rank, to_text(action) + why); };
    const bool exists = action.stage >= 0 && action.stage < shape.stages;
    if (!exists || shape.position_of(action.stage) != position) {
      return wrong(" belongs to another stage");
    }
    if (action.kind == kEvaluate || action.kind == kCheckpoint) {
      return wrong(" does not belong into an iteration");
    }
    if (of_iteration(action.kind) && action.microbatch != -1) {
      return wrong(" belongs to no microbatch");
    }
    if (action.kind == kUpdate) {
      if (i + chunks < order.size()) return wrong(" must be the last action");
    } else if (action.kind == kReduceGradients) {
      if (shape.replicas == 1) return wrong(": this stage has no replicas");
      if (i + 2 * chunks < order.size() || i + chunks >= order.size()) {
        return wrong(" must come right before the update");
      }
    } else if (action.microbatch < 0 || action.microbatch >= microbatches) {
      return wrong(fmt::format(": there are microbatches 0 to {}", microbatches - 1));
    }
    if (action::is_communication(action.kind) && !shape.crosses(boundary_of(action))) {
      return wrong(" has no stage at the other end");
    }
    if (action.kind == kRecompute && !shape.recomputes(action.stage)) {
      return wrong(": this stage does not recompute");
    }
    if (at.has(action)) return wrong(" is there twice");
    at.of(action) = static_cast<uint32_t>(i);
  }
  for (const int32_t stage : shape.stages_at(position)) {
    if (!at.has({kUpdate, stage, -1})) {
      return broken(rank, "the optimizer update is missing at the end");
    }
    if (shape.replicas > 1 && !at.has({kReduceGradients, stage, -1})) {
      return broken(rank, "the replicas' gradients are not summed before the update");
    }
  }
  return {};
}

// Whether neighbouring stages of one rank hand over to each other, or are of two copies.
enum class Copies { kOne, kTwo };

// One microbatch on one stage: everything is there, and each step follows what it needs.
Status check_microbatch(const Positions& at, const PipelineShape& shape, Copies copies, size_t rank,
                        int32_t stage, int32_t microbatch) {
  const bool from_previous = shape.crosses(stage - 1);
  const bool from_next = shape.crosses(stage);
  const bool recompute = shape.recomputes(stage);
  // Split where either half is there; the whole one must then not be.
  const bool split =
      at.has({kBackwardInput, stage, microbatch}) || at.has({kBackwardWeight, stage, microbatch});
  if (split && at.has({kBackward, stage, microbatch})) {
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
    if (step.expected && !at.has({step.kind, stage, microbatch})) {
      return broken(rank, to_text({step.kind, stage, microbatch}) + " is missing");
    }
  }
  // Neighbouring stages of one rank hand over without a message.
  const bool hands_over = copies == Copies::kOne && stage + 1 < shape.stages && !from_next;
  const int32_t next = hands_over ? stage + 1 : stage;
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
    if (at.has(before) && at.has(after) && at.of(before) > at.of(after)) {
      return broken(rank, fmt::format("{} comes before {}", to_text(after), to_text(before)));
    }
  }
  return {};
}

// Messages of each directed pair of ranks, as their senders or their receivers order them. Each
// stands as the sender's action.
struct Stream {
  int32_t sender = 0, receiver = 0;
  std::vector<Action> sent, received;
};

// By sender, which of its neighbours (one further, one back, or from the last to the first), and
// whether gradients.
std::vector<Stream> streams_of(const Schedule& schedule, const PipelineShape& shape) {
  std::vector<Stream> streams(schedule.ranks.size() * 6);
  for (size_t r = 0; r < schedule.ranks.size(); ++r) {
    const auto rank = static_cast<int32_t>(r);
    for (const Action& action : schedule.ranks[r]) {
      if (!action::is_communication(action.kind)) continue;
      const int32_t other = action.stage + (towards_next(action.kind) ? 1 : -1);
      const int32_t peer = shape.rank_of(other, rank % shape.replicas);
      const bool gradient = action.kind == kSendGradient || action.kind == kReceiveGradient;
      const bool sends = action::is_send(action.kind);
      const int32_t sender = sends ? rank : peer;
      const int32_t receiver = sends ? peer : rank;
      const int32_t step = receiver / shape.replicas - sender / shape.replicas;
      const size_t neighbour = step == 1 ? 0 : step == -1 ? 1 : 2;
      Stream& stream =
          streams[static_cast<size_t>(sender) * 6 + neighbour * 2 + (gradient ? 1 : 0)];
      stream.sender = sender;
      stream.receiver = receiver;
      if (sends) {
        stream.sent.push_back(action);
      } else {
        stream.received.push_back(
            {gradient ? kSendGradient : kSendActivation, other, action.microbatch});
      }
    }
  }
  return streams;
}

// Messages of a pair travel in the order of their sends; a receiver that asks for another order
// would wait for a message stuck behind one that it does not take.
Status check_messages(const Schedule& schedule, const PipelineShape& shape) {
  for (const Stream& stream : streams_of(schedule, shape)) {
    for (size_t i = 0; i < stream.sent.size(); ++i) {
      const Action& sent = stream.sent[i];
      const Action& received = stream.received[i];
      if (sent == received) continue;
      const bool gradient = received.kind == kSendGradient;
      const Action asked{gradient ? kReceiveGradient : kReceiveActivation,
                         received.stage + (gradient ? -1 : 1), received.microbatch};
      return broken(static_cast<size_t>(stream.receiver),
                    fmt::format("its message {} from rank {} is {}, but it receives {}", i,
                                stream.sender, to_text(sent), to_text(asked)));
    }
  }
  return {};
}

// Co-executed are a forward and the whole backward right behind it, in the order of the rank.
Status check_neighbours(const Schedule& schedule) {
  if (schedule.pairs.empty()) return {};
  if (schedule.pairs.size() != schedule.ranks.size()) {
    return unusable(fmt::format("the schedule is broken: it has pairs of {} ranks of {}",
                                schedule.pairs.size(), schedule.ranks.size()));
  }
  for (size_t rank = 0; rank < schedule.ranks.size(); ++rank) {
    const RankActions& order = schedule.ranks[rank];
    size_t next = 0;
    for (const Pair& pair : schedule.pairs[rank]) {
      const auto found =
          std::find(order.begin() + static_cast<ptrdiff_t>(next), order.end(), pair.forward);
      const bool neighbours = pair.forward.kind == kForward && pair.backward.kind == kBackward &&
                              found != order.end() && found + 1 != order.end() &&
                              found[1] == pair.backward;
      if (!neighbours) {
        return broken(rank, fmt::format("it pairs {} with {}, which is not a forward with the "
                                        "backward right behind it, or not in the order of the rank",
                                        to_text(pair.forward), to_text(pair.backward)));
      }
      next = static_cast<size_t>(found - order.begin()) + 2;
    }
  }
  return {};
}

std::string name_of(const LinkOrder& link) {
  const std::string whose =
      link.first < 0 ? fmt::format("cell {}", link.cell)
                     : fmt::format("pipeline {} and others of cell {}", link.first, link.cell);
  return fmt::format("the link of {} from stage {} to stage {}", whose,
                     link.boundary + (link.gradients ? 1 : 0),
                     link.boundary + (link.gradients ? 0 : 1));
}

// Every shared link has its order, and in it every transfer of those that share it once.
Status check_links(const Schedule& schedule, const PipelineShape& shape) {
  const auto wrong = [](const std::string& why) {
    return unusable("the schedule is broken: " + why);
  };
  const std::vector<LinkOrder> expected = links_of(shape);
  if (schedule.links.size() != expected.size()) {
    return wrong(
        fmt::format("it orders {} shared links of {}", schedule.links.size(), expected.size()));
  }
  std::vector<bool> seen;
  for (size_t i = 0; i < expected.size(); ++i) {
    const LinkOrder& link = schedule.links[i];
    if (link.key() != expected[i].key()) {
      return wrong(
          fmt::format("it orders {}, which is not shared or not in its place", name_of(link)));
    }
    const std::vector<int32_t> sharers = sharers_of(link, shape);
    const auto transfers = sharers.size() * static_cast<size_t>(shape.microbatches);
    seen.assign(transfers, false);
    for (const Transfer& transfer : link.transfers) {
      const auto wrong_transfer = [&](const char* how) {
        return wrong(fmt::format("{} carries microbatch {} of pipeline {}{}", name_of(link),
                                 transfer.microbatch, transfer.replica, how));
      };
      const auto at = std::lower_bound(sharers.begin(), sharers.end(), transfer.replica);
      if (at == sharers.end() || *at != transfer.replica || transfer.microbatch < 0 ||
          transfer.microbatch >= shape.microbatches) {
        return wrong_transfer(", which does not exist there");
      }
      const auto number =
          static_cast<size_t>((at - sharers.begin()) * shape.microbatches + transfer.microbatch);
      if (seen[number]) return wrong_transfer(" twice");
      seen[number] = true;
    }
    if (link.transfers.size() != transfers) {
      return wrong(fmt::format("{} carries {} transfers of {}", name_of(link),
                               link.transfers.size(), transfers));
    }
  }
  return {};
}

Status check_release(const Schedule& schedule, const PipelineShape& shape) {
  if (!schedule.release.empty() && schedule.release.size() != static_cast<size_t>(shape.replicas)) {
    return unusable(fmt::format("the schedule is broken: it releases {} pipelines of {}",
                                schedule.release.size(), shape.replicas));
  }
  for (size_t replica = 0; replica < schedule.release.size(); ++replica) {
    if (schedule.release[replica].ns >= 0) continue;
    return unusable(fmt::format("the schedule is broken: pipeline {} is released {} ns before all",
                                replica, -schedule.release[replica].ns));
  }
  return {};
}

// Lets all ranks advance until none can, whatever the time. Gradient all-reduces come after all
// messages, so they cannot block any.
Status check_finishes(const Schedule& schedule, const PipelineShape& shape) {
  const detail::LongestPath path =
      detail::longest_path(schedule, shape, equal_times(shape.stages, {}));
  for (size_t rank = 0; rank < schedule.ranks.size(); ++rank) {
    if (path.stopped[rank] == schedule.ranks[rank].size()) continue;
    const Action& action = schedule.ranks[rank][path.stopped[rank]];
    return broken(
        rank,
        fmt::format("it waits for {} forever: the ranks wait for one another{}", to_text(action),
                    shape.shares(boundary_of(action)) ? " or for shared links" : ""));
  }
  return {};
}

Status validate_all(const Schedule& schedule, const PipelineShape& shape, Copies copies) {
  if (schedule.ranks.size() != static_cast<size_t>(shape.ranks())) {
    return unusable(fmt::format("the schedule has {} ranks for {} stages x {} replicas",
                                schedule.ranks.size(), shape.positions(), shape.replicas));
  }
  Positions at(shape);
  for (size_t rank = 0; rank < schedule.ranks.size(); ++rank) {
    TRY(locate(schedule, shape, rank, at));
    const int32_t microbatches = shape.microbatches_of(static_cast<int32_t>(rank) % shape.replicas);
    for (const int32_t stage : shape.stages_at(static_cast<int32_t>(rank) / shape.replicas)) {
      for (int32_t m = 0; m < microbatches; ++m) {
        TRY(check_microbatch(at, shape, copies, rank, stage, m));
      }
    }
  }
  TRY(check_messages(schedule, shape));
  TRY(check_neighbours(schedule));
  TRY(check_links(schedule, shape));
  TRY(check_release(schedule, shape));
  return check_finishes(schedule, shape);
}

}  // namespace

Status validate(const Schedule& schedule, const PipelineShape& shape) {
  return validate_all(schedule, shape, Copies::kOne);
}

Status validate_copies(const Schedule& schedule, const PipelineShape& shape) {
  return validate_all(schedule, shape, Copies::kTwo);
}

}  // namespace tombolo::schedule
