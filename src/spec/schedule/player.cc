#include "spec/schedule/player.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <queue>

#include "base/check.h"
#include "spec/schedule/passes.h"

namespace tombolo::schedule {
namespace {

using action::ActionKind;

constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

// One DP-cell, the first; the others do the same. Times are nanoseconds; -1 stands for "not known yet".
class Player {
 public:
  // With fixed orders, as in CellOrders, only links have a choice.
  Player(const PipelineShape& shape, const Times& times, const Rules& rules,
         std::vector<RankActions> fixed = {})
      : shape_(shape),
        times_(times),
        rules_(rules),
        fixed_(std::move(fixed)),
        pipelines_(static_cast<size_t>(shape.cell)),
        microbatches_(static_cast<size_t>(shape.microbatches)),
        ranks_(static_cast<size_t>(shape.positions()) * pipelines_),
        chunks_(static_cast<size_t>(shape.stages) * pipelines_),
        inputs_(chunks_.size() * microbatches_, -1),
        gradients_(chunks_.size() * microbatches_, -1),
        ways_(ranks_.size() * 2) {
    for (int32_t position = 0; position < shape.positions(); ++position) {
      stages_at_.push_back(shape.stages_at(position));
    }
    connect();
    for (size_t rank = 0; rank < fixed_.size(); ++rank) ranks_[rank].todo = fixed_of(rank).size();
  }

  CellPlay play() {
    CellPlay out;
    out.finished = run();
    out.makespan = {last_end_ - std::max<int64_t>(first_start_, 0)};
    out.orders.release = rules_.release;
    out.orders.recompute_ahead = rules_.recompute != RecomputeRule::kWithGradient;
    for (Link& link : links_) out.orders.links.push_back(std::move(link.order));
    if (!fixed_.empty()) {
      out.orders.ranks = std::move(fixed_);
      return out;
    }
    for (int32_t position = 0; position < shape_.positions(); ++position) {
      for (size_t c = 0; c < pipelines_; ++c) {
        out.orders.ranks.push_back(std::move(ranks_[rank_index(position, c)].order));
      }
    }
    return out;
  }

 private:
  // Whether everything was done; if not, the rules left a rank or link waiting forever.
  bool run() {
    for (size_t c = 0; c < pipelines_; ++c) {
      const int64_t release = rules_.release.empty() ? 0 : rules_.release[c].ns;
      for (size_t m = 0; m < microbatches_; ++m) inputs_[index(0, c, m)] = release;
      wake(release, rank_index(0, c));
    }
    while (!wakes_.empty()) {
      const int64_t now = now_ = wakes_.top().time;
      touched_.clear();
      for (; !wakes_.empty() && wakes_.top().time == now; wakes_.pop()) {
        const size_t who = wakes_.top().who;
        if (who >= ranks_.size()) {
          serve(who - ranks_.size(), now);
        } else {
          touched_.push_back(who);
        }
      }
      // Late positions first: what they begin tells the others when to expect it.
      std::sort(touched_.begin(), touched_.end());
      touched_.erase(std::unique(touched_.begin(), touched_.end()), touched_.end());
      for (const size_t rank : touched_) {
        if (ranks_[rank].free <= now) pick(rank, now);
      }
    }
    if (!fixed_.empty()) {
      return std::all_of(ranks_.begin(), ranks_.end(),
                         [](const Rank& rank) { return rank.next == rank.todo; });
    }
    const int64_t all = static_cast<int64_t>(chunks_.size()) * static_cast<int64_t>(microbatches_);
    return backwards_done_ == all && (!rules_.split_backward || weights_done_ == all);
  }

  struct Rank {
    int64_t free = 0;
    int32_t in_flight = 0;
    RankActions order = {};
    size_t next = 0, todo = 0;  // of a fixed order
  };
  struct Chunk {  // one stage of one pipeline: how many of each kind were begun
    int32_t forwards = 0, recomputes = 0, backwards = 0, weights = 0;
  };
  // A link of the cell: what is ready waits here, each pipeline's in the order of its sends.
  struct Link {
    LinkOrder order;
    int64_t free = 0;
    struct Waiting {
      std::vector<int64_t> ready;  // when, by microbatch
      size_t next = 0;
    };
    std::vector<Waiting> waiting = {};
  };
  // For which stages messages come to a rank, in the order of their sends.
  struct Way {
    std::vector<int32_t> stages;
    size_t next = 0;
  };
  struct Wake {
    int64_t time;
    size_t who;  // a rank, or ranks_.size() + a shared link
    bool operator>(const Wake& other) const { return time > other.time; }
  };

  // Ranks are numbered from the last position to the first, so that ascending means late first.
  size_t rank_index(int32_t position, size_t pipeline) const {
    return static_cast<size_t>(shape_.positions() - 1 - position) * pipelines_ + pipeline;
  }
  int32_t position_of_rank(size_t rank) const {
    return shape_.positions() - 1 - static_cast<int32_t>(rank / pipelines_);
  }
  size_t rank_at(int32_t stage, size_t pipeline) const {
    return rank_index(shape_.position_of(stage), pipeline);
  }
  const RankActions& fixed_of(size_t rank) const {
    return fixed_[static_cast<size_t>(position_of_rank(rank)) * pipelines_ + rank % pipelines_];
  }
  Chunk& chunk(int32_t stage, size_t pipeline) {
    return chunks_[static_cast<size_t>(stage) * pipelines_ + pipeline];
  }
  size_t index(int32_t stage, size_t pipeline, size_t microbatch) const {
    return (static_cast<size_t>(stage) * pipelines_ + pipeline) * microbatches_ + microbatch;
  }

  // A link of its own for each directed pair of ranks of a pipeline, one for each direction of a
  // boundary and all that share it.
  void connect() {
    shared_of_.assign(static_cast<size_t>(shape_.stages) * 2 * pipelines_, -1);
    own_of_.assign(static_cast<size_t>(shape_.stages) * 2, 0);
    std::map<std::pair<int32_t, int32_t>, size_t> numbers;
    for (int32_t boundary = 0; boundary + 1 < shape_.stages; ++boundary) {
      for (const bool gradients : {false, true}) {
        const int32_t from = shape_.position_of(boundary + (gradients ? 1 : 0));
        const int32_t to = shape_.position_of(boundary + (gradients ? 0 : 1));
        own_of_[static_cast<size_t>(boundary) * 2 + gradients] =
            numbers.emplace(std::pair{from, to}, numbers.size()).first->second;
      }
    }
    own_free_.assign(numbers.size() * pipelines_, 0);
    for (LinkOrder& order : links_of(shape_)) {
      if (order.cell > 0) continue;
      const std::vector<int32_t> sharers = sharers_of(order, shape_);
      for (const int32_t c : sharers) {
        shared_of_[way(order.boundary, order.gradients, static_cast<size_t>(c))] =
            static_cast<int32_t>(links_.size());
      }
      order.transfers.reserve(microbatches_ * sharers.size());
      links_.push_back({std::move(order)});
      links_.back().waiting.resize(pipelines_);
    }
  }
  size_t way(int32_t boundary, bool gradients, size_t pipeline) const {
    return (static_cast<size_t>(boundary) * 2 + gradients) * pipelines_ + pipeline;
  }

  void wake(int64_t time, size_t who) { wakes_.push({time, who}); }

  // ---- what a rank does next ----

  void pick(size_t rank, int64_t now) {
    if (!fixed_.empty()) return follow(rank, now);
    const int32_t position = position_of_rank(rank);
    const size_t c = rank % pipelines_;
    const std::vector<int32_t>& stages = stages_at_[static_cast<size_t>(position)];
    // What was recomputed takes memory: nothing else until its backward.
    for (const int32_t s : stages) {
      if (chunk(s, c).recomputes <= chunk(s, c).backwards) continue;
      if (backward_possible(s, c, now)) backward(rank, s, c, now);
      return;
    }
    const bool forward_first = rules_.compute == ComputeRule::kForwardFirst;
    if (forward_first && try_forward(rank, stages, c, now)) return;
    for (const int32_t s : stages) {
      if (!backward_possible(s, c, now)) continue;
      if (forward_first &&
          worth_waiting(rank, stages, c, now, times_.stages[static_cast<size_t>(s)].backward().ns,
                        false)) {
        return;
      }
      return backward(rank, s, c, now);
    }
    const bool after_forwards = rules_.recompute == RecomputeRule::kAfterForwards;
    if (!after_forwards && try_recompute(rank, stages, c, now)) return;
    if (!forward_first && try_forward(rank, stages, c, now)) return;
    if (after_forwards && try_recompute(rank, stages, c, now)) return;
    if (rules_.split_backward) try_weight(rank, stages, c, now);
  }

  // The next action of a fixed order, if it is possible now.
  void follow(size_t rank, int64_t now) {
    Rank& at = ranks_[rank];
    if (at.next == at.todo) return;
    const size_t c = rank % pipelines_;
    const action::Action& action = fixed_of(rank)[at.next];
    const int32_t s = action.stage;
    const auto m = static_cast<size_t>(action.microbatch);
    const StageDurations& stage = times_.stages[static_cast<size_t>(s)];
    const auto there = [&](const std::vector<int64_t>& arrivals) {
      const int64_t time = arrivals[index(s, c, m)];
      return time >= 0 && time <= now;
    };
    switch (action.kind) {
      case ActionKind::kForward: {
        if (!there(inputs_)) return;
        forward_done(s, c, m, compute(rank, action, now, stage.forward));
        break;
      }
      case ActionKind::kRecompute:
        if (rules_.recompute == RecomputeRule::kWithGradient && !there(gradients_)) return;
        compute(rank, action, now, stage.recompute);
        break;
      case ActionKind::kBackwardWeight:
        compute(rank, action, now, stage.backward_weight);
        break;
      default: {
        if (!there(gradients_)) return;
        const bool whole = action.kind == ActionKind::kBackward;
        const int64_t end =
            compute(rank, action, now, whole ? stage.backward() : stage.backward_input);
        if (s > 0) send(s - 1, true, c, m, end);
      }
    }
    ++at.next;
  }

  void forward_done(int32_t s, size_t c, size_t m, int64_t end) {
    if (s + 1 == shape_.stages) {
      gradients_[index(s, c, m)] = end;
    } else {
      send(s, false, c, m, end);
    }
  }

  bool backward_possible(int32_t s, size_t c, int64_t now) {
    const Chunk& at = chunk(s, c);
    const auto m = static_cast<size_t>(at.backwards);
    if (m == microbatches_ || at.forwards <= at.backwards) return false;
    if (shape_.recomputes(s) && at.recomputes <= at.backwards) return false;
    const int64_t gradient = gradients_[index(s, c, m)];
    return gradient >= 0 && gradient <= now && is_next_of_way(rank_at(s, c), s, true);
  }

  // Whether memory keeps it from another forward, with `reserve` microbatches left free.
  bool full(size_t rank, size_t reserve) const {
    if (rules_.in_flight.empty()) return false;
    return ranks_[rank].in_flight + static_cast<int32_t>(reserve) >=
           rules_.in_flight[static_cast<size_t>(position_of_rank(rank))];
  }

  // Whether something preferred (a backward, or a forward) comes soon enough.
  bool worth_waiting(size_t rank, const std::vector<int32_t>& stages, size_t c, int64_t now,
                     int64_t duration, bool for_backward) {
    if (rules_.patience <= 0) return false;
    const auto soon = now + static_cast<int64_t>(rules_.patience * static_cast<double>(duration));
    for (const int32_t s : stages) {
      const Chunk& at = chunk(s, c);
      const auto m = static_cast<size_t>(for_backward ? at.backwards : at.forwards);
      if (m == microbatches_ || (for_backward ? at.forwards <= at.backwards : full(rank, 0))) {
        continue;
      }
      const int64_t time = (for_backward ? gradients_ : inputs_)[index(s, c, m)];
      if (time > now && time < soon) return true;
    }
    return false;
  }

  // Where one way brings messages for several stages of a rank: whether the next is for this one.
  bool is_next_of_way(size_t rank, int32_t s, bool gradient) const {
    if (shape_.mapping != layout::StageMapping::kLoop || !shape_.crosses(gradient ? s : s - 1))
      return true;
    const Way& way = ways_[rank * 2 + gradient];
    return way.next < way.stages.size() && way.stages[way.next] == s;
  }
  void take(size_t rank, int32_t s, bool gradient) {
    if (shape_.mapping != layout::StageMapping::kLoop || !shape_.crosses(gradient ? s : s - 1))
      return;
    ++ways_[rank * 2 + gradient].next;
  }

  bool try_forward(size_t rank, const std::vector<int32_t>& stages, size_t c, int64_t now) {
    for (size_t i = stages.size(); i-- > 0;) {
      const int32_t s = stages[i];
      Chunk& at = chunk(s, c);
      const auto m = static_cast<size_t>(at.forwards);
      if (m == microbatches_ || full(rank, stages.size() - 1 - i)) continue;
      const int64_t input = inputs_[index(s, c, m)];
      if (input < 0 || input > now || !is_next_of_way(rank, s, false)) continue;
      const int64_t duration = times_.stages[static_cast<size_t>(s)].forward.ns;
      if (rules_.compute == ComputeRule::kBackwardFirst &&
          worth_waiting(rank, stages, c, now, duration, true)) {
        return true;
      }
      take(rank, s, false);
      ++at.forwards;
      ++ranks_[rank].in_flight;
      forward_done(s, c, m,
                   compute(rank, {ActionKind::kForward, s, static_cast<int32_t>(m)}, now,
                           times_.stages[static_cast<size_t>(s)].forward));
      return true;
    }
    return false;
  }

  bool try_recompute(size_t rank, const std::vector<int32_t>& stages, size_t c, int64_t now) {
    for (const int32_t s : stages) {
      Chunk& at = chunk(s, c);
      if (!shape_.recomputes(s) || at.recomputes > at.backwards) continue;
      if (static_cast<size_t>(at.backwards) == microbatches_ || at.forwards <= at.backwards) {
        continue;
      }
      const int64_t gradient = gradients_[index(s, c, static_cast<size_t>(at.backwards))];
      const int64_t duration = times_.stages[static_cast<size_t>(s)].recompute.ns;
      const bool ahead = rules_.recompute != RecomputeRule::kWithGradient;
      if (gradient < 0 || gradient - (ahead ? duration : 0) > now) continue;
      if (!is_next_of_way(rank, s, true)) continue;
      compute(rank, {ActionKind::kRecompute, s, at.recomputes++}, now, {duration});
      return true;
    }
    return false;
  }

  void try_weight(size_t rank, const std::vector<int32_t>& stages, size_t c, int64_t now) {
    for (const int32_t s : stages) {
      Chunk& at = chunk(s, c);
      if (at.weights == at.backwards) continue;
      const SimDuration duration = times_.stages[static_cast<size_t>(s)].backward_weight;
      if (rules_.weights == WeightRule::kWhenItFits &&
          next_known(rank, stages, c, now) < now + duration.ns) {
        return;
      }
      --ranks_[rank].in_flight;
      ++weights_done_;
      compute(rank, {ActionKind::kBackwardWeight, s, at.weights++}, now, duration);
      return;
    }
  }

  // When the next message for this rank is known to arrive, after now.
  int64_t next_known(size_t rank, const std::vector<int32_t>& stages, size_t c, int64_t now) {
    int64_t next = kNever;
    for (const int32_t s : stages) {
      const Chunk& at = chunk(s, c);
      const auto f = static_cast<size_t>(at.forwards);
      const auto b = static_cast<size_t>(at.backwards);
      const auto consider = [&](int64_t time) {
        if (time > now) next = std::min(next, time);
      };
      if (f < microbatches_ && !full(rank, 0)) consider(inputs_[index(s, c, f)]);
      if (b < f) consider(gradients_[index(s, c, b)]);
    }
    return next;
  }

  void backward(size_t rank, int32_t s, size_t c, int64_t now) {
    Chunk& at = chunk(s, c);
    const auto m = static_cast<size_t>(at.backwards++);
    take(rank, s, true);
    if (shape_.recomputes(s)) at.recomputes = at.backwards;
    const StageDurations& stage = times_.stages[static_cast<size_t>(s)];
    ++backwards_done_;
    if (!rules_.split_backward) --ranks_[rank].in_flight;
    const bool split = rules_.split_backward;
    const ActionKind kind = split ? ActionKind::kBackwardInput : ActionKind::kBackward;
    const int64_t end = compute(rank, {kind, s, static_cast<int32_t>(m)}, now,
                                split ? stage.backward_input : stage.backward());
    if (s > 0) send(s - 1, true, c, m, end);
  }

  int64_t compute(size_t rank, const action::Action& action, int64_t now, SimDuration duration) {
    Rank& at = ranks_[rank];
    if (fixed_.empty()) at.order.push_back(action);
    at.free = now + duration.ns;
    if (first_start_ < 0) first_start_ = now;
    last_end_ = std::max(last_end_, at.free);
    wake(at.free, rank);
    return at.free;
  }

  // ---- what links do ----

  // A message over a boundary is handed to its link at `ready`.
  void send(int32_t boundary, bool gradient, size_t c, size_t m, int64_t ready) {
    if (!shape_.crosses(boundary)) return arrive(boundary, gradient, c, m, ready);
    if (shape_.mapping == layout::StageMapping::kLoop) {
      const int32_t stage = boundary + (gradient ? 0 : 1);
      ways_[rank_at(stage, c) * 2 + gradient].stages.push_back(stage);
    }
    const int32_t shared = links_.empty() ? -1 : shared_of_[way(boundary, gradient, c)];
    if (shared >= 0) {
      links_[static_cast<size_t>(shared)].waiting[c].ready.push_back(ready);
      return wake(ready, ranks_.size() + static_cast<size_t>(shared));
    }
    int64_t& free =
        own_free_[own_of_[static_cast<size_t>(boundary) * 2 + gradient] * pipelines_ + c];
    const auto pipeline = static_cast<int32_t>(c);
    free = std::max(free, ready) + times_.transfer_over(boundary, pipeline).ns;
    arrive(boundary, gradient, c, m, free + times_.latency_over(boundary, pipeline).ns);
  }

  // A shared link that is free takes the transfer that its rule prefers.
  void serve(size_t number, int64_t now) {
    Link& link = links_[number];
    if (link.free > now) return;
    size_t best = pipelines_;
    const auto head = [&](size_t c) { return link.waiting[c].ready[link.waiting[c].next]; };
    for (size_t c = 0; c < pipelines_; ++c) {
      const Link::Waiting& waiting = link.waiting[c];
      if (waiting.next == waiting.ready.size() || head(c) > now) continue;
      const bool preferred =
          best == pipelines_ || (rules_.link == LinkRule::kFirstCome && head(c) < head(best)) ||
          (rules_.link == LinkRule::kMicrobatch && waiting.next < link.waiting[best].next);
      if (preferred) best = c;
    }
    if (best == pipelines_) return;
    const size_t m = link.waiting[best].next++;
    const int32_t boundary = link.order.boundary;
    const auto pipeline = static_cast<int32_t>(best);
    link.order.transfers.push_back({pipeline, static_cast<int32_t>(m)});
    link.free = now + times_.transfer_over(boundary, pipeline).ns;
    wake(link.free, ranks_.size() + number);
    arrive(boundary, link.order.gradients, best, m,
           link.free + times_.latency_over(boundary, pipeline).ns);
  }

  // When a message will be there is known from now on.
  void arrive(int32_t boundary, bool gradient, size_t c, size_t m, int64_t time) {
    const int32_t stage = boundary + (gradient ? 0 : 1);
    (gradient ? gradients_ : inputs_)[index(stage, c, m)] = time;
    const size_t rank = rank_index(shape_.position_of(stage), c);
    wake(time, rank);
    if (gradient && shape_.recomputes(stage) && rules_.recompute != RecomputeRule::kWithGradient) {
      const int64_t due = time - times_.stages[static_cast<size_t>(stage)].recompute.ns;
      wake(std::max(due, now_), rank);
    }
  }

  const PipelineShape& shape_;
  const Times& times_;
  const Rules& rules_;
  std::vector<RankActions> fixed_;
  const size_t pipelines_;
  const size_t microbatches_;
  std::vector<Rank> ranks_;
  std::vector<Chunk> chunks_;
  std::vector<int64_t> inputs_, gradients_;  // when they are there, by stage, pipeline, microbatch
  std::vector<std::vector<int32_t>> stages_at_;
  // By boundary and direction which pair of positions it joins; and by pipeline, too, which shared
  // link it takes.
  std::vector<size_t> own_of_;
  std::vector<int32_t> shared_of_;  // -1: none
  std::vector<int64_t> own_free_;   // when a pipeline's own link is, by pair and pipeline
  std::vector<Link> links_;
  std::vector<Way> ways_;  // by rank and direction; of interleaved stages only
  std::priority_queue<Wake, std::vector<Wake>, std::greater<>> wakes_;
  std::vector<size_t> touched_;
  int64_t now_ = 0;
  int64_t backwards_done_ = 0, weights_done_ = 0;
  int64_t first_start_ = -1, last_end_ = 0;
};

bool is_computation(const action::Action& action) {
  return !action::is_communication(action.kind) && action.kind != ActionKind::kUpdate &&
         action.kind != ActionKind::kReduceGradients;
}

// Every cell of a shape does what one did.
std::vector<LinkOrder> for_all_cells(const std::vector<LinkOrder>& of_one,
                                     const PipelineShape& shape) {
  std::vector<LinkOrder> out;
  for (const LinkOrder& link : of_one) {
    for (int32_t cell = 0; cell < shape.replicas / shape.cell; ++cell) {
      out.push_back(of_later_cell(link, cell, shape));
    }
  }
  return out;
}

}  // namespace

CellPlay play_cell(const PipelineShape& shape, const Times& times, const Rules& rules) {
  return Player(shape, times, rules).play();
}

CellPlay play_links(const PipelineShape& shape, const Times& times, const Rules& rules,
                    std::vector<RankActions> ranks) {
  return Player(shape, times, rules, std::move(ranks)).play();
}

Schedule complete(const std::string& name, const PipelineShape& shape, const CellOrders& orders) {
  std::vector<RankActions> compute;
  for (int32_t rank = 0; rank < shape.ranks(); ++rank) {
    const int32_t position = rank / shape.replicas;
    const int32_t pipeline = rank % shape.replicas % shape.cell;
    compute.push_back(orders.ranks[static_cast<size_t>(position * shape.cell + pipeline)]);
  }
  Schedule schedule{name, add_communication(compute, shape,
                                            orders.recompute_ahead ? RecomputeWhen::kAhead
                                                                   : RecomputeWhen::kWithGradient)};
  add_update(schedule.ranks, shape);
  schedule.links = for_all_cells(orders.links, shape);
  for (int32_t replica = 0; !orders.release.empty() && replica < shape.replicas; ++replica) {
    schedule.release.push_back(orders.release[static_cast<size_t>(replica % shape.cell)]);
  }
  return schedule;
}

Result<Played> play(const std::string& name, const PipelineShape& shape, const Times& times,
                    const Rules& rules) {
  const CellPlay played = play_cell(shape, times, rules);
  if (!played.finished) {
    return infeasible(fmt::format("schedule \"{}\": with so few microbatches in flight its stages "
                                  "wait for one another",
                                  name),
                      "memory for more microbatches");
  }
  return Played{complete(name, shape, played.orders), played.makespan};
}

namespace {

// Whether these two pipelines of the first cell share every crossing of the WAN, and then how long
// their slowest shared transfer takes. If one also crosses alone, at its own speed, it comes there
// the later the longer it waited before.
std::optional<SimDuration> takes_turns(const PipelineShape& shape, const Times& times, int32_t one,
                                       int32_t other) {
  SimDuration shared, alone;
  for (int32_t boundary = 0; boundary + 1 < shape.stages; ++boundary) {
    const int32_t first = shape.first_sharer(boundary, other);
    if (first != shape.first_sharer(boundary, one)) return std::nullopt;
    SimDuration& slowest = first < 0 ? alone : shared;
    slowest = std::max(slowest, times.transfer_over(boundary, other));
  }
  if (!shape.groups.empty() && alone > shared) return std::nullopt;
  return shared;
}

}  // namespace

Rules cell_rules(const PipelineShape& shape, const Times& times, layout::Discipline discipline) {
  Rules rules;
  if (discipline == layout::Discipline::kStrict) rules.link = LinkRule::kPipeline;
  if (discipline != layout::Discipline::kReleased || shape.shared.empty()) return rules;
  rules.release.resize(static_cast<size_t>(shape.cell));
  for (int32_t c = 0; c < shape.cell; ++c) {
    for (int32_t before = c - 1; before >= 0; --before) {
      const std::optional<SimDuration> transfer = takes_turns(shape, times, before, c);
      if (!transfer) continue;
      rules.release[static_cast<size_t>(c)] =
          rules.release[static_cast<size_t>(before)] + *transfer * shape.microbatches;
      break;
    }
  }
  return rules;
}

Schedule order_links(Schedule schedule, const PipelineShape& shape, const Times& times,
                     const Rules& rules) {
  if (shape.shared.empty()) return schedule;
  // The cells of a named schedule are alike: the first one speaks for all.
  std::vector<RankActions> compute;
  for (int32_t position = 0; position < shape.positions(); ++position) {
    for (int32_t c = 0; c < shape.cell; ++c) {
      const RankActions& order = schedule.ranks[static_cast<size_t>(position * shape.replicas + c)];
      compute.emplace_back();
      std::copy_if(order.begin(), order.end(), std::back_inserter(compute.back()),
                   [](const Action& action) { return is_computation(action); });
    }
  }
  const CellPlay played = play_links(shape, times, rules, std::move(compute));
  CHECK(played.finished, "schedule {} cannot finish", schedule.name);
  schedule.links = for_all_cells(played.orders.links, shape);
  for (int32_t replica = 0; !rules.release.empty() && replica < shape.replicas; ++replica) {
    schedule.release.push_back(rules.release[static_cast<size_t>(replica % shape.cell)]);
  }
  return schedule;
}

}  // namespace tombolo::schedule
