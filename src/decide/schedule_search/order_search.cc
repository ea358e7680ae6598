#include "decide/schedule_search/order_search.h"

#include <algorithm>
#include <map>

#include "base/check.h"

namespace tombolo::schedule_search::detail {

using action::ActionKind;

OrderSearch::OrderSearch(const schedule::PipelineShape& shape, const schedule::Times& times,
                         const schedule::Memory& memory, const schedule::CellOrders& orders,
                         bool recompute_right_before)
    : shape_(shape), times_(times), memory_(memory), right_before_(recompute_right_before) {
  CHECK(shape.replicas == shape.cell, "{} replicas, cells of {}", shape.replicas, shape.cell);
  const auto all = static_cast<size_t>(number(kKinds, 0, 0, 0));
  setup_.assign(all, 0);
  duration_.assign(all, 0);
  machine_of_.assign(all, -1);
  next_.assign(all, kNone);
  previous_.assign(all, kNone);
  lag_.assign(all, 0);
  own_link_.assign(all, -1);
  own_transfer_.assign(all, 0);
  initial_.assign(all, -1);
  end_.assign(all, 0);
  waited_behind_.assign(all, kNone);
  by_machine_.assign(all, 0);
  pipeline_end_.assign(static_cast<size_t>(shape.cell), 0);
  read(orders);
  CHECK(evaluate(), "orders that wait for one another");
  best_cost_ = cost_;
  for (const Machine& machine : machines_) best_.push_back(machine.order);
}

// What each stage hands to the next one, and how.
void OrderSearch::connect(Kind from_kind, int32_t from, Kind to_kind, int32_t to, Kind message,
                          int32_t boundary) {
  for (int32_t c = 0; c < shape_.cell; ++c) {
    for (int32_t m = 0; m < shape_.microbatches; ++m) {
      const auto link = [&](Operation a, Operation b) {
        next_[static_cast<size_t>(a)] = b;
        previous_[static_cast<size_t>(b)] = a;
      };
      const Operation sender = number(from_kind, from, c, m);
      const Operation receiver = number(to_kind, to, c, m);
      if (boundary < 0 || !shape_.crosses(boundary)) {
        link(sender, receiver);
        continue;
      }
      const int64_t transfer = times_.transfer_over(boundary).ns;
      const int64_t latency = times_.latency_over(boundary).ns;
      if (!shape_.shares(boundary)) {
        link(sender, receiver);
        lag_[static_cast<size_t>(sender)] = latency;
        own_transfer_[static_cast<size_t>(sender)] = transfer;
        own_link_[static_cast<size_t>(sender)] =
            (shape_.position_of(from) * shape_.positions() + shape_.position_of(to)) * shape_.cell +
            c;
        continue;
      }
      const Operation carried = number(message, boundary, c, m);
      link(sender, carried);
      link(carried, receiver);
      duration_[static_cast<size_t>(carried)] = transfer;
      lag_[static_cast<size_t>(carried)] = latency;
    }
  }
}

void OrderSearch::read(const schedule::CellOrders& orders) {
  for (size_t rank = 0; rank < orders.ranks.size(); ++rank) {
    const auto c = static_cast<int32_t>(rank) % shape_.cell;
    machines_.emplace_back();
    for (const action::Action& action : orders.ranks[rank]) {
      if (action.kind == ActionKind::kRecompute && right_before_) continue;  // a setup of B
      const schedule::StageDurations& stage = times_.stages[static_cast<size_t>(action.stage)];
      Kind kind = kForward;
      int64_t duration = stage.forward.ns;
      if (action.kind == ActionKind::kBackwardWeight) {
        split_ = true;
        kind = kWeight;
        duration = stage.backward_weight.ns;
      } else if (action.kind == ActionKind::kRecompute) {
        kind = kRecompute;
        duration = stage.recompute.ns;
      } else if (action.kind != ActionKind::kForward) {
        kind = kBackward;
        duration =
            (action.kind == ActionKind::kBackward ? stage.backward() : stage.backward_input).ns;
      }
      const Operation o = number(kind, action.stage, c, action.microbatch);
      duration_[static_cast<size_t>(o)] = duration;
      if (kind == kBackward && right_before_ && shape_.recomputes(action.stage)) {
        setup_[static_cast<size_t>(o)] = stage.recompute.ns;
      }
      machine_of_[static_cast<size_t>(o)] = static_cast<int32_t>(rank);
      machines_.back().order.push_back(o);
    }
  }
  links_ = orders.links;
  for (schedule::LinkOrder& link : links_) {
    const auto machine = static_cast<int32_t>(machines_.size());
    machines_.emplace_back();
    for (const schedule::Transfer& transfer : link.transfers) {
      const Operation o = number(link.gradients ? kGradient : kActivation, link.boundary,
                                 transfer.replica, transfer.microbatch);
      machine_of_[static_cast<size_t>(o)] = machine;
      machines_.back().order.push_back(o);
    }
    link.transfers.clear();
  }
  for (int32_t s = 0; s + 1 < shape_.stages; ++s) {
    connect(kForward, s, kForward, s + 1, kActivation, s);
    connect(kBackward, s + 1, kBackward, s, kGradient, s);
  }
  connect(kForward, shape_.stages - 1, kBackward, shape_.stages - 1, kActivation, -1);
  const auto links = static_cast<size_t>(shape_.positions() * shape_.positions() * shape_.cell);
  own_free_.assign(links, 0);
  own_last_.assign(links, kNone);
  // R, W and the first F need nothing but their place in the order.
  for (int32_t c = 0; c < shape_.cell; ++c) {
    for (int32_t m = 0; m < shape_.microbatches; ++m) {
      for (int32_t s = 0; s < shape_.stages; ++s) {
        initial_[static_cast<size_t>(number(kRecompute, s, c, m))] = 0;
        initial_[static_cast<size_t>(number(kWeight, s, c, m))] = 0;
      }
      initial_[static_cast<size_t>(number(kForward, 0, c, m))] = 0;
    }
  }
}

// ---- how long orders take ----

bool OrderSearch::evaluate() {
  ready_ = initial_;
  std::fill(own_free_.begin(), own_free_.end(), 0);
  std::fill(own_last_.begin(), own_last_.end(), kNone);
  std::fill(pipeline_end_.begin(), pipeline_end_.end(), 0);
  awake_.clear();
  for (size_t machine = machines_.size(); machine-- > 0;) {
    machines_[machine].next = 0;
    machines_[machine].free = 0;
    awake_.push_back(machine);
  }
  while (!awake_.empty()) {
    const size_t machine = awake_.back();
    awake_.pop_back();
    advance(machine);
  }
  cost_ = {};
  const auto ranks = static_cast<size_t>(shape_.ranks());
  int64_t first = INT64_MAX;
  for (size_t machine = 0; machine < machines_.size(); ++machine) {
    const Machine& at = machines_[machine];
    if (at.next != at.order.size()) return false;
    if (machine >= ranks || at.order.empty()) continue;
    const auto front = static_cast<size_t>(at.order.front());
    first = std::min(first, end_[front] - duration_[front] - setup_[front]);
    int64_t& end = pipeline_end_[machine % static_cast<size_t>(shape_.cell)];
    end = std::max(end, at.free);
    if (at.free <= cost_.makespan) continue;
    cost_.makespan = at.free;
    last_ = at.order.back();
  }
  for (const int64_t end : pipeline_end_) cost_.sum += end;
  cost_.makespan -= first;
  return true;
}

void OrderSearch::advance(size_t machine) {
  Machine& at = machines_[machine];
  while (at.next < at.order.size()) {
    const Operation o = at.order[at.next];
    const auto i = static_cast<size_t>(o);
    if (ready_[i] < 0) return;
    const int64_t free = at.free + setup_[i];
    by_machine_[i] = free >= ready_[i];
    at.free = end_[i] = std::max(free, ready_[i]) + duration_[i];
    ++at.next;
    if (next_[i] != kNone) deliver(o, end_[i]);
  }
}

void OrderSearch::deliver(Operation o, int64_t end) {
  const auto i = static_cast<size_t>(o);
  if (own_link_[i] >= 0) {
    const auto link = static_cast<size_t>(own_link_[i]);
    waited_behind_[i] = own_free_[link] > end ? own_last_[link] : kNone;
    own_free_[link] = end = std::max(end, own_free_[link]) + own_transfer_[i];
    own_last_[link] = o;
  }
  const auto to = static_cast<size_t>(next_[i]);
  ready_[to] = end + lag_[i];
  const Machine& waiting = machines_[static_cast<size_t>(machine_of_[to])];
  if (waiting.next < waiting.order.size() && waiting.order[waiting.next] == next_[i]) {
    awake_.push_back(static_cast<size_t>(machine_of_[to]));
  }
}

// ---- what may change ----

bool OrderSearch::may_pass(size_t machine, Operation first, Operation second) const {
  if (machine >= static_cast<size_t>(shape_.ranks())) {
    return pipeline_of(first) != pipeline_of(second);
  }
  if (next_[static_cast<size_t>(first)] == second) return false;
  if (stage_of(first) != stage_of(second)) return true;
  return kind_of(first) != kind_of(second) && microbatch_of(first) != microbatch_of(second);
}

// Of a rank, while the operations of [from, to] are done.
bool OrderSearch::within_memory(size_t machine, size_t from, size_t to) const {
  if (memory_.in_flight.empty() || machine >= static_cast<size_t>(shape_.ranks())) return true;
  const int32_t most = memory_.in_flight[machine / static_cast<size_t>(shape_.cell)];
  const std::vector<Operation>& order = machines_[machine].order;
  int32_t now = 0;
  for (size_t i = 0; i <= to; ++i) {
    if (closes(order[i])) --now;
    if (kind_of(order[i]) == kForward && ++now > most && i >= from) return false;
  }
  return true;
}

bool OrderSearch::apply(const Move& move) {
  const auto machine = static_cast<size_t>(move.machine);
  std::vector<Operation>& order = machines_[machine].order;
  const int32_t step = move.to > move.from ? 1 : -1;
  const Operation moved = order[static_cast<size_t>(move.from)];
  for (int32_t i = move.from + step; i != move.to + step; i += step) {
    const Operation other = order[static_cast<size_t>(i)];
    if (!(step > 0 ? may_pass(machine, moved, other) : may_pass(machine, other, moved))) {
      return false;
    }
  }
  const auto begin = order.begin();
  if (step > 0) {
    std::rotate(begin + move.from, begin + move.from + 1, begin + move.to + 1);
  } else {
    std::rotate(begin + move.to, begin + move.from, begin + move.from + 1);
  }
  if (within_memory(machine, static_cast<size_t>(std::min(move.from, move.to)),
                    static_cast<size_t>(std::max(move.from, move.to)))) {
    return true;
  }
  undo(move);
  return false;
}

void OrderSearch::undo(const Move& move) {
  const auto begin = machines_[static_cast<size_t>(move.machine)].order.begin();
  if (move.to > move.from) {
    std::rotate(begin + move.from, begin + move.to, begin + move.to + 1);
  } else {
    std::rotate(begin + move.to, begin + move.to + 1, begin + move.from + 1);
  }
}

// From the last computation back to the first: what it waited for, and the blocks of operations
// that followed one another on one machine.
void OrderSearch::find_moves() {
  moves_.clear();
  Operation o = last_;
  while (o != kNone) {
    const int32_t machine = machine_of_[static_cast<size_t>(o)];
    const std::vector<Operation>& order = machines_[static_cast<size_t>(machine)].order;
    // Operations of a stage run in the order of their microbatches, hence of their ends.
    const auto at = std::partition_point(order.begin(), order.end(), [&](Operation other) {
      return end_[static_cast<size_t>(other)] < end_[static_cast<size_t>(o)];
    });
    auto last = static_cast<int32_t>(std::find(at, order.end(), o) - order.begin());
    int32_t first = last;
    while (first > 0 && by_machine_[static_cast<size_t>(order[static_cast<size_t>(first)])])
      --first;
    for (int32_t i = first; i < last; ++i) moves_.push_back({machine, i, i + 1});
    for (int32_t i = first; i + 1 < last; ++i) {
      moves_.push_back({machine, last, i});
      moves_.push_back({machine, first, i + 2});
    }
    o = order[static_cast<size_t>(first)];
    Operation before = previous_[static_cast<size_t>(o)];
    while (before != kNone && waited_behind_[static_cast<size_t>(before)] != kNone) {
      before = waited_behind_[static_cast<size_t>(before)];
    }
    o = before;
  }
}

void OrderSearch::improve(const Options& options) {
  constexpr size_t kMemory = 50;  // of costs that were accepted
  Random random = Random(options.seed).stream("order_search");
  std::vector<Cost> history(kMemory, best_cost_);
  Cost current = best_cost_;
  const int64_t patience = std::max<int64_t>(200, options.evaluations_max / 8);
  int64_t since_best = 0;
  CHECK(evaluate(), "orders that wait for one another");
  find_moves();
  for (int64_t n = 0; n < options.evaluations_max && best_cost_.makespan > options.enough.ns; ++n) {
    if (moves_.empty()) return;
    if (++since_best > patience) {  // back to the best, another way from there
      for (size_t i = 0; i < machines_.size(); ++i) machines_[i].order = best_[i];
      CHECK(evaluate(), "orders that wait for one another");
      current = best_cost_;
      std::fill(history.begin(), history.end(), best_cost_);
      find_moves();
      since_best = 0;
    }
    const Move move = moves_[random.below(moves_.size())];
    if (!apply(move)) continue;
    Cost& past = history[static_cast<size_t>(n) % kMemory];
    const bool finished = evaluate();
    if (!finished || (cost_ > current && cost_ > past)) {
      undo(move);
      past = current;
      continue;
    }
    current = past = cost_;
    find_moves();
    if (cost_ >= best_cost_) continue;
    if (cost_.makespan < best_cost_.makespan) since_best = 0;
    best_cost_ = cost_;
    for (size_t i = 0; i < machines_.size(); ++i) best_[i] = machines_[i].order;
  }
}

schedule::CellOrders OrderSearch::orders() const {
  schedule::CellOrders out;
  out.recompute_ahead = true;
  const auto ranks = static_cast<size_t>(shape_.ranks());
  for (size_t rank = 0; rank < ranks; ++rank) {
    out.ranks.emplace_back();
    for (const Operation o : best_[rank]) {
      const int32_t s = stage_of(o);
      const int32_t m = microbatch_of(o);
      switch (kind_of(o)) {
        case kForward:
          out.ranks.back().push_back({ActionKind::kForward, s, m});
          break;
        case kRecompute:
          out.ranks.back().push_back({ActionKind::kRecompute, s, m});
          break;
        case kWeight:
          out.ranks.back().push_back({ActionKind::kBackwardWeight, s, m});
          break;
        default:
          if (right_before_ && shape_.recomputes(s)) {
            out.ranks.back().push_back({ActionKind::kRecompute, s, m});
          }
          out.ranks.back().push_back(
              {split_ ? ActionKind::kBackwardInput : ActionKind::kBackward, s, m});
      }
    }
  }
  out.links = links_;
  for (size_t link = 0; link < out.links.size(); ++link) {
    for (const Operation o : best_[ranks + link]) {
      out.links[link].transfers.push_back({pipeline_of(o), microbatch_of(o)});
    }
  }
  return out;
}

}  // namespace tombolo::schedule_search::detail
