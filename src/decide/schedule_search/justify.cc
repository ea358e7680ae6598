#include "decide/schedule_search/justify.h"

#include <algorithm>
#include <queue>
#include <tuple>

#include "base/check.h"

namespace tombolo::schedule_search::detail {

using action::ActionKind;

Justify::Justify(const schedule::PipelineShape& shape, const schedule::Times& times,
                 const schedule::Memory& memory, const schedule::CellOrders& orders,
                 bool recompute_right_before)
    : shape_(shape),
      times_(times),
      memory_(memory),
      right_before_(recompute_right_before),
      links_(orders.links) {
  CHECK(shape.chunks == 1 && shape.replicas == shape.cell, "{} chunks, {} replicas, cells of {}",
        shape.chunks, shape.replicas, shape.cell);
  for (const action::Action& action : orders.ranks.front()) {
    split_ = split_ || action.kind == ActionKind::kBackwardWeight;
  }
  add_computations();
  add_messages();
  add_limits();
  start_.resize(operations_.size());
  // An order says who comes first; its place in it is a time as good as any to begin with.
  key_ = starts_of(orders);
  best_makespan_ = place(false);
  best_start_ = start_;
}

int32_t Justify::add(Kind kind, int32_t machine, int32_t stage, int32_t pipeline,
                     int32_t microbatch, int64_t duration) {
  operations_.push_back({kind, machine, stage, pipeline, microbatch, duration});
  before_.emplace_back();
  after_.emplace_back();
  return static_cast<int32_t>(operations_.size()) - 1;
}

void Justify::precede(int32_t before, int32_t after, int64_t lag) {
  before_[static_cast<size_t>(after)].push_back({before, lag});
  after_[static_cast<size_t>(before)].push_back({after, lag});
}

// A gradient may come as late as an R that is a part of its B ends.
int64_t Justify::recompute_within_backward(int32_t stage) const {
  if (!right_before_ || !shape_.recomputes(stage)) return 0;
  return times_.stages[static_cast<size_t>(stage)].recompute.ns;
}

void Justify::add_computations() {
  for (int32_t s = 0; s < shape_.stages; ++s) {
    const schedule::StageDurations& stage = times_.stages[static_cast<size_t>(s)];
    const int64_t backward = (split_ ? stage.backward_input : stage.backward()).ns;
    const bool recomputes = !right_before_ && shape_.recomputes(s);
    for (int32_t c = 0; c < shape_.cell; ++c) {
      for (int32_t m = 0; m < shape_.microbatches; ++m) {
        int32_t before = -1;
        const auto follow = [&](std::vector<int32_t>& all, Kind kind, int64_t duration) {
          const int32_t o = add(kind, s * shape_.cell + c, s, c, m, duration);
          if (before >= 0) precede(before, o);
          if (m > 0) precede(all.back(), o);
          all.push_back(before = o);
        };
        const auto leave_out = [](std::vector<int32_t>& all) { all.push_back(-1); };
        follow(forward_, Kind::kForward, stage.forward.ns);
        if (recomputes) {
          follow(recompute_, Kind::kRecompute, stage.recompute.ns);
        } else {
          leave_out(recompute_);
        }
        follow(backward_, Kind::kBackward, backward + recompute_within_backward(s));
        if (split_) follow(weight_, Kind::kWeight, stage.backward_weight.ns);
      }
    }
  }
  machines_ = shape_.stages * shape_.cell;
}

void Justify::add_messages() {
  const auto index = [&](int32_t s, int32_t c, int32_t m) {
    return static_cast<size_t>((s * shape_.cell + c) * shape_.microbatches + m);
  };
  // Shared links first, in the order in which a cell names them.
  link_machine_ = machines_;
  int32_t own = machines_ + static_cast<int32_t>(links_.size());
  for (int32_t s = 0; s + 1 < shape_.stages; ++s) {
    for (const bool gradients : {false, true}) {
      const int64_t transfer = times_.transfer_over(s).ns;
      const int64_t latency = times_.latency_over(s).ns;
      const bool shared = shape_.shares(s);
      const int32_t to = gradients ? s : s + 1;
      const int64_t recompute = gradients ? recompute_within_backward(to) : 0;
      for (int32_t c = 0; c < shape_.cell; ++c) {
        int32_t last = -1;
        for (int32_t m = 0; m < shape_.microbatches; ++m) {
          const int32_t sender =
              gradients ? backward_[index(s + 1, c, m)] : forward_[index(s, c, m)];
          const int32_t receiver =
              gradients ? backward_[index(to, c, m)] : forward_[index(to, c, m)];
          if (!shared && transfer == 0) {
            precede(sender, receiver, latency - recompute);
            continue;
          }
          const int32_t carried = add(Kind::kTransfer, shared ? machines_ : own, s, c, m, transfer);
          precede(sender, carried);
          precede(carried, receiver, latency - recompute);
          if (last >= 0) precede(last, carried);
          last = carried;
        }
        own += !shared;
      }
      machines_ += shared;
    }
  }
  machines_ = own;
}

void Justify::add_limits() {
  if (memory_.in_flight.empty()) return;
  const std::vector<int32_t>& closing = split_ ? weight_ : backward_;
  for (size_t i = 0; i < forward_.size(); ++i) {
    const Operation& first = operations_[static_cast<size_t>(forward_[i])];
    const int32_t most = memory_.in_flight[static_cast<size_t>(first.stage)];
    if (first.microbatch + most < shape_.microbatches) {
      precede(closing[i], forward_[i + static_cast<size_t>(most)]);
    }
  }
}

// The earliest times of operations in a given order; those of its own links follow their senders.
std::vector<int64_t> Justify::starts_of(const schedule::CellOrders& orders) const {
  std::vector<std::vector<int32_t>> order(static_cast<size_t>(machines_));
  const auto index = [&](int32_t s, int32_t c, int32_t m) {
    return static_cast<size_t>((s * shape_.cell + c) * shape_.microbatches + m);
  };
  for (size_t rank = 0; rank < orders.ranks.size(); ++rank) {
    const int32_t c = static_cast<int32_t>(rank) % shape_.cell;
    for (const action::Action& action : orders.ranks[rank]) {
      const size_t i = index(action.stage, c, action.microbatch);
      if (action.kind == ActionKind::kForward) order[rank].push_back(forward_[i]);
      if (action.kind == ActionKind::kBackwardWeight) order[rank].push_back(weight_[i]);
      if (action.kind == ActionKind::kRecompute && !right_before_) {
        order[rank].push_back(recompute_[i]);
      }
      if (action.kind == ActionKind::kBackward || action.kind == ActionKind::kBackwardInput) {
        order[rank].push_back(backward_[i]);
      }
    }
  }
  std::vector<std::vector<int32_t>> of_link(links_.size());
  for (size_t link = 0; link < links_.size(); ++link) {
    std::vector<int32_t> carried(static_cast<size_t>(shape_.cell * shape_.microbatches));
    for (size_t o = 0; o < operations_.size(); ++o) {
      const Operation& each = operations_[o];
      if (each.machine != link_machine_ + static_cast<int32_t>(link)) continue;
      carried[static_cast<size_t>(each.pipeline * shape_.microbatches + each.microbatch)] =
          static_cast<int32_t>(o);
    }
    for (const schedule::Transfer& transfer : orders.links[link].transfers) {
      order[static_cast<size_t>(link_machine_) + link].push_back(carried[static_cast<size_t>(
          transfer.replica * shape_.microbatches + transfer.microbatch)]);
    }
  }
  // Along all arcs and orders, in topological order.
  std::vector<int32_t> behind(operations_.size(), -1), missing(operations_.size());
  std::vector<int64_t> start(operations_.size());
  for (const std::vector<int32_t>& machine : order) {
    for (size_t i = 1; i < machine.size(); ++i) {
      behind[static_cast<size_t>(machine[i - 1])] = machine[i];
      ++missing[static_cast<size_t>(machine[i])];
    }
  }
  std::vector<int32_t> open;
  for (size_t o = 0; o < operations_.size(); ++o) {
    missing[o] += static_cast<int32_t>(before_[o].size());
    if (missing[o] == 0) open.push_back(static_cast<int32_t>(o));
  }
  size_t done = 0;
  for (; !open.empty(); ++done) {
    const auto o = static_cast<size_t>(open.back());
    open.pop_back();
    const int64_t end = start[o] + operations_[o].duration;
    const auto release = [&](int32_t other, int64_t lag) {
      const auto i = static_cast<size_t>(other);
      start[i] = std::max(start[i], end + lag);
      if (--missing[i] == 0) open.push_back(other);
    };
    for (const Arc& arc : after_[o]) release(arc.other, arc.lag);
    if (behind[o] >= 0) release(behind[o], 0);
  }
  CHECK(done == operations_.size(), "orders that wait for one another");
  return start;
}

int64_t Justify::gap(std::vector<Taken>& machine, int64_t earliest, int64_t duration) {
  auto at = std::partition_point(machine.begin(), machine.end(),
                                 [&](const Taken& taken) { return taken.end <= earliest; });
  int64_t start = earliest;
  for (; at != machine.end() && at->start < start + duration; ++at) start = at->end;
  machine.insert(at, {start, start + duration});
  return start;
}

int64_t Justify::place(bool mirrored) {
  const auto& before = mirrored ? after_ : before_;
  const auto& after = mirrored ? before_ : after_;
  taken_.resize(static_cast<size_t>(machines_));
  for (std::vector<Taken>& machine : taken_) machine.clear();
  missing_.assign(operations_.size(), 0);
  using Entry = std::pair<int64_t, int32_t>;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> open;
  for (size_t o = 0; o < operations_.size(); ++o) {
    missing_[o] = static_cast<int32_t>(before[o].size());
    if (missing_[o] == 0) open.push({key_[o], static_cast<int32_t>(o)});
  }
  int64_t makespan = 0;
  while (!open.empty()) {
    const auto o = static_cast<size_t>(open.top().second);
    open.pop();
    int64_t earliest = 0;
    for (const Arc& arc : before[o]) {
      const auto other = static_cast<size_t>(arc.other);
      earliest = std::max(earliest, start_[other] + operations_[other].duration + arc.lag);
    }
    const Operation& operation = operations_[o];
    start_[o] = gap(taken_[static_cast<size_t>(operation.machine)], earliest, operation.duration);
    makespan = std::max(makespan, start_[o] + operation.duration);
    for (const Arc& arc : after[o]) {
      const auto other = static_cast<size_t>(arc.other);
      if (--missing_[other] == 0) open.push({key_[other], arc.other});
    }
  }
  return makespan;
}

void Justify::improve(const Options& options) {
  Random random = Random(options.seed).stream("justify");
  int64_t mean = 0;
  for (const Operation& operation : operations_) mean += operation.duration;
  mean = std::max<int64_t>(1, mean / static_cast<int64_t>(operations_.size()));
  start_ = best_start_;
  int64_t last = best_makespan_;
  int stuck = 0;
  for (int64_t pass = 0; pass + 2 <= options.passes_max && best_makespan_ > options.enough.ns;
       pass += 2) {
    int64_t noise = 0;
    if (stuck > 1) {
      start_ = best_start_;
      noise = mean * static_cast<int64_t>(1 + random.below(4));
      stuck = 0;
      last = best_makespan_;
    }
    const auto shaken = [&](int64_t key) {
      return noise == 0 ? key
                        : key + static_cast<int64_t>(random.below(static_cast<uint64_t>(noise)));
    };
    for (size_t o = 0; o < key_.size(); ++o)
      key_[o] = shaken(-(start_[o] + operations_[o].duration));
    const int64_t end = place(true);
    // Times of the mirror are counted from the end.
    for (size_t o = 0; o < key_.size(); ++o) key_[o] = end - start_[o] - operations_[o].duration;
    const int64_t makespan = place(false);
    stuck = makespan < last ? 0 : stuck + 1;
    last = makespan;
    if (makespan >= best_makespan_) continue;
    best_makespan_ = makespan;
    best_start_ = start_;
  }
}

schedule::CellOrders Justify::orders() const {
  std::vector<std::vector<int32_t>> order(static_cast<size_t>(machines_));
  for (size_t o = 0; o < operations_.size(); ++o) {
    order[static_cast<size_t>(operations_[o].machine)].push_back(static_cast<int32_t>(o));
  }
  for (std::vector<int32_t>& machine : order) {
    std::sort(machine.begin(), machine.end(), [&](int32_t a, int32_t b) {
      const auto key = [&](int32_t o) {
        const Operation& each = operations_[static_cast<size_t>(o)];
        const int64_t start = best_start_[static_cast<size_t>(o)];
        return std::tuple{start, start + each.duration, each.microbatch, each.kind};
      };
      return key(a) < key(b);
    });
  }
  schedule::CellOrders out;
  out.recompute_ahead = true;
  for (int32_t rank = 0; rank < shape_.stages * shape_.cell; ++rank) {
    out.ranks.emplace_back();
    for (const int32_t o : order[static_cast<size_t>(rank)]) {
      const Operation& each = operations_[static_cast<size_t>(o)];
      const auto append = [&](ActionKind kind) {
        out.ranks.back().push_back({kind, each.stage, each.microbatch});
      };
      if (each.kind == Kind::kForward) append(ActionKind::kForward);
      if (each.kind == Kind::kRecompute) append(ActionKind::kRecompute);
      if (each.kind == Kind::kWeight) append(ActionKind::kBackwardWeight);
      if (each.kind != Kind::kBackward) continue;
      if (right_before_ && shape_.recomputes(each.stage)) append(ActionKind::kRecompute);
      append(split_ ? ActionKind::kBackwardInput : ActionKind::kBackward);
    }
  }
  out.links = links_;
  for (size_t link = 0; link < out.links.size(); ++link) {
    out.links[link].transfers.clear();
    for (const int32_t o : order[static_cast<size_t>(link_machine_) + link]) {
      const Operation& each = operations_[static_cast<size_t>(o)];
      out.links[link].transfers.push_back({each.pipeline, each.microbatch});
    }
  }
  return out;
}

}  // namespace tombolo::schedule_search::detail
