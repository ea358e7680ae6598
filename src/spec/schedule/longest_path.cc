#include "spec/schedule/longest_path.h"

#include <algorithm>
#include <array>
#include <limits>

namespace tombolo::schedule::detail {
namespace {

using action::Action;
using action::ActionKind;

constexpr size_t kNothing = static_cast<size_t>(-1);
constexpr SimTime kUnknown{-1};

// Ranks advance one after the other, each until it needs a message whose arrival is not known yet;
// once the arrival is known, the rank advances again. Messages and links have numbers, so that
// arrays hold what is known of them.
class Walk {
 public:
  Walk(const Schedule& schedule, const PipelineShape& shape, const Times& times,
       trace::Trace* drawing)
      : schedule_(schedule),
        shape_(shape),
        times_(times),
        drawing_(drawing),
        ranks_(schedule.ranks.size()),
        own_links_(schedule.ranks.size() * kNeighbours) {
    for (int32_t stage = 0; stage < shape.stages; ++stage) {
      position_.push_back(shape.position_of(stage));
    }
    const auto ways = static_cast<size_t>(2 * (shape.stages - 1));
    arrival_.assign(
        ways * static_cast<size_t>(shape.replicas) * static_cast<size_t>(shape.microbatches),
        kUnknown);
    if (schedule.links.empty()) return;
    handed_over_ = arrival_;
    shared_links_.resize(ways * static_cast<size_t>(shape.replicas));
    for (const LinkOrder& order : schedule.links) {
      const int32_t first = order.first < 0 ? order.cell * shape.cell : order.first;
      shared_link(order.boundary, order.gradients, first).order = &order;
    }
  }

  LongestPath run() {
    for (size_t rank = ranks_.size(); rank > 0; --rank) awake_.push_back(rank - 1);
    while (!awake_.empty()) {
      const size_t rank = awake_.back();
      awake_.pop_back();
      advance(rank);
    }
    LongestPath out;
    for (const Rank& rank : ranks_) out.stopped.push_back(rank.next);
    if (last_ > first_) out.makespan = last_ - first_;
    return out;
  }

 private:
  // The rank after this one, the one before it, and from the last one back to the first.
  static constexpr size_t kNeighbours = 3;

  struct Rank {
    size_t next = 0;            // in its order
    SimTime now = {};           // its last computation ends, its last awaited message is there
    size_t awaited = kNothing;  // the message
    size_t next_pair = 0;       // of its pairs
  };
  struct Link {
    SimTime free = {};
    const LinkOrder* order = nullptr;  // of a shared one
    size_t next = 0;                   // in the order
  };
  struct Message {
    int32_t boundary;
    bool gradients;
    int32_t replica;
    int32_t microbatch;
  };

  void advance(size_t index) {
    Rank& rank = ranks_[index];
    const RankActions& order = schedule_.ranks[index];
    const int32_t replica = static_cast<int32_t>(index) % shape_.replicas;
    for (; rank.next < order.size(); ++rank.next) {
      const Action& action = order[rank.next];
      const int32_t m = action.microbatch;
      switch (action.kind) {
        case ActionKind::kSendActivation:
          send({action.stage, false, replica, m}, rank.now);
          break;
        case ActionKind::kSendGradient:
          send({action.stage - 1, true, replica, m}, rank.now);
          break;
        case ActionKind::kReceiveActivation:
          if (!receive(rank, number({action.stage - 1, false, replica, m}))) return;
          break;
        case ActionKind::kReceiveGradient:
          if (!receive(rank, number({action.stage, true, replica, m}))) return;
          break;
        default:
          if (const Pair* pair = begins_pair(index, action)) {
            rank.next = co_execute(index, replica, *pair);
          } else {
            compute(index, replica, action);
          }
      }
    }
  }

  const Pair* begins_pair(size_t index, const Action& action) const {
    if (schedule_.pairs.empty()) return nullptr;
    const std::vector<Pair>& pairs = schedule_.pairs[index];
    const size_t next = ranks_[index].next_pair;
    return next < pairs.size() && pairs[next].forward == action ? &pairs[next] : nullptr;
  }

  // The pair and its sends, which leave in the order in which its sides end. Returns where the last
  // of them stands.
  size_t co_execute(size_t index, int32_t replica, const Pair& pair) {
    Rank& rank = ranks_[index];
    ++rank.next_pair;
    const PairDurations durations = times_.pair(pair.forward.stage, pair.backward.stage);
    const SimTime start = rank.now;
    const std::array<std::pair<Action, SimTime>, 2> sides{
        std::pair{pair.forward, start + durations.forward_end},
        std::pair{pair.backward, start + durations.backward_end}};
    rank.now = start + durations.duration();
    for (const auto& [action, end] : sides) draw_computation(index, action, start, end);
    const RankActions& order = schedule_.ranks[index];
    size_t last = rank.next + 1;
    const bool forward_first = durations.forward_ends_first();
    for (const size_t side : {forward_first ? 0 : 1, forward_first ? 1 : 0}) {
      const auto& [action, end] = sides[side];
      const Action sent{side == 0 ? ActionKind::kSendActivation : ActionKind::kSendGradient,
                        action.stage, action.microbatch};
      for (size_t i = rank.next + 2; i < std::min(order.size(), rank.next + 4); ++i) {
        if (order[i] != sent) continue;
        send({sent.stage - (side == 0 ? 0 : 1), side == 1, replica, sent.microbatch}, end);
        ++last;
      }
    }
    return last;
  }

  void compute(size_t index, int32_t replica, const Action& action) {
    SimTime& now = ranks_[index].now;
    if (action.kind == ActionKind::kForward && action.stage == 0 && !schedule_.release.empty()) {
      now = std::max(now, SimTime{} + schedule_.release[static_cast<size_t>(replica)]);
    }
    const SimDuration duration = times_.stages[static_cast<size_t>(action.stage)].of(action.kind);
    if (duration.ns == 0) return;
    const SimTime start = now;
    now = now + duration;
    draw_computation(index, action, start, now);
  }

  void draw_computation(size_t index, const Action& action, SimTime start, SimTime end) {
    if (start == end) return;
    first_ = std::min(first_, start);
    last_ = std::max(last_, end);
    if (!drawing_) return;
    drawing_->intervals.push_back(
        {trace::Lane::kCompute, static_cast<int32_t>(index), -1, action, 1, start, end, 0});
  }

  // Whether it is there.
  bool receive(Rank& rank, size_t message) {
    if (arrival_[message] == kUnknown) {
      rank.awaited = message;
      return false;
    }
    rank.now = std::max(rank.now, arrival_[message]);
    return true;
  }

  void send(const Message& message, SimTime now) {
    const int32_t first = shape_.first_sharer(message.boundary, message.replica);
    if (first < 0) {
      carry(own_link(message), message, now);
      return;
    }
    handed_over_[number(message)] = now;
    Link& link = shared_link(message.boundary, message.gradients, first);
    const std::vector<Transfer>& transfers = link.order->transfers;
    for (; link.next < transfers.size(); ++link.next) {
      const Message next{message.boundary, message.gradients, transfers[link.next].replica,
                         transfers[link.next].microbatch};
      const SimTime ready = handed_over_[number(next)];
      if (ready == kUnknown) return;
      carry(link, next, ready);
    }
  }

  void carry(Link& link, const Message& message, SimTime ready) {
    const SimTime start = std::max(link.free, ready);
    link.free = start + times_.transfer_over(message.boundary, message.replica);
    const SimTime there = link.free + times_.latency_over(message.boundary, message.replica);
    const size_t receiver = rank_of(receiver_of(message), message.replica);
    const size_t which = number(message);
    arrival_[which] = there;
    if (drawing_ && start != there) draw(message, receiver, start, there);
    if (ranks_[receiver].awaited != which) return;
    ranks_[receiver].awaited = kNothing;
    awake_.push_back(receiver);
  }

  void draw(const Message& message, size_t receiver, SimTime start, SimTime end) {
    const int32_t stage = sender_of(message);
    const Action action{message.gradients ? ActionKind::kSendGradient : ActionKind::kSendActivation,
                        stage, message.microbatch};
    drawing_->intervals.push_back({trace::Lane::kLink,
                                   static_cast<int32_t>(rank_of(stage, message.replica)),
                                   static_cast<int32_t>(receiver), action, 1, start, end, 0});
  }

  static int32_t sender_of(const Message& m) { return m.boundary + (m.gradients ? 1 : 0); }
  static int32_t receiver_of(const Message& m) { return m.boundary + (m.gradients ? 0 : 1); }
  static size_t way(int32_t boundary, bool gradients) {
    return 2 * static_cast<size_t>(boundary) + (gradients ? 1 : 0);
  }
  Link& shared_link(int32_t boundary, bool gradients, int32_t first) {
    return shared_links_[way(boundary, gradients) * static_cast<size_t>(shape_.replicas) +
                         static_cast<size_t>(first)];
  }
  size_t number(const Message& m) const {
    return (way(m.boundary, m.gradients) * static_cast<size_t>(shape_.replicas) +
            static_cast<size_t>(m.replica)) *
               static_cast<size_t>(shape_.microbatches) +
           static_cast<size_t>(m.microbatch);
  }
  size_t rank_of(int32_t stage, int32_t replica) const {
    return static_cast<size_t>(position_[static_cast<size_t>(stage)] * shape_.replicas + replica);
  }
  Link& own_link(const Message& message) {
    const int32_t step = position_[static_cast<size_t>(receiver_of(message))] -
                         position_[static_cast<size_t>(sender_of(message))];
    const size_t neighbour = step == 1 ? 0 : step == -1 ? 1 : 2;
    return own_links_[rank_of(sender_of(message), message.replica) * kNeighbours + neighbour];
  }

  const Schedule& schedule_;
  const PipelineShape& shape_;
  const Times& times_;
  trace::Trace* drawing_;
  std::vector<Rank> ranks_;
  std::vector<int32_t> position_;  // by stage
  std::vector<Link> own_links_;
  std::vector<Link> shared_links_;              // by way and first pipeline
  std::vector<SimTime> handed_over_, arrival_;  // by number of the message
  std::vector<size_t> awake_;
  SimTime first_{std::numeric_limits<int64_t>::max()};
  SimTime last_{};
};

}  // namespace

LongestPath longest_path(const Schedule& schedule, const PipelineShape& shape, const Times& times,
                         trace::Trace* drawing) {
  return Walk(schedule, shape, times, drawing).run();
}

}  // namespace tombolo::schedule::detail
