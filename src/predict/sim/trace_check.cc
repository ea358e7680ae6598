#include "predict/sim/trace_check.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <queue>
#include <tuple>

#include "base/check.h"
#include "base/time.h"
#include "spec/plan/resources.h"
#include "spec/schedule/exchange_graph.h"
#include "spec/schedule/exchange_memory.h"
#include "spec/schedule/schedule.h"

namespace tombolo::sim {
namespace {

using action::Action;
using action::ActionKind;
using trace::Interval;
using trace::Lane;

// A resource serves so much work, in nanoseconds of its own, between two moments.
struct Demand {
  SimTime first, last;
  double work = 0;
  const Interval* interval = nullptr;
};

// The transfer that is late where the earliest last moment goes first, or nothing.
const Demand* late_one(std::vector<Demand>& demands) {
  // Whole nanoseconds stand for moments between them: half of one for each that was waited for.
  constexpr double kRelative = 1e-9;
  std::sort(demands.begin(), demands.end(), [](const Demand& a, const Demand& b) {
    return std::tie(a.first, a.last) < std::tie(b.first, b.last);
  });
  const auto later = [](const std::pair<SimTime, size_t>& a, const std::pair<SimTime, size_t>& b) {
    return a > b;
  };
  std::priority_queue<std::pair<SimTime, size_t>, std::vector<std::pair<SimTime, size_t>>,
                      decltype(later)>
      waiting(later);
  std::vector<double> left(demands.size());
  double now = 0;
  for (size_t next = 0; next < demands.size() || !waiting.empty();) {
    if (waiting.empty()) now = std::max(now, static_cast<double>(demands[next].first.ns));
    while (next < demands.size() && static_cast<double>(demands[next].first.ns) <= now) {
      left[next] = demands[next].work;
      waiting.emplace(demands[next].last, next);
      ++next;
    }
    const size_t served = waiting.top().second;
    const double until = next < demands.size() ? static_cast<double>(demands[next].first.ns)
                                               : now + left[served] + 1;
    const double step = std::min(left[served], std::max(0.0, until - now));
    now += step;
    left[served] -= step;
    if (left[served] > 0) continue;
    const auto last = static_cast<double>(demands[served].last.ns);
    if (now > last + 1 + kRelative * last) return &demands[served];
    waiting.pop();
  }
  return nullptr;
}

// Of all spans that end with this demand, how far the fullest is above what the resource carries.
double overload(const std::vector<Demand>& demands, const Demand& late) {
  double worst = 0, work = 0;
  for (auto demand = demands.rbegin(); demand != demands.rend(); ++demand) {
    if (demand->last > late.last) continue;
    work += demand->work;
    const auto span = static_cast<double>((late.last - demand->first).ns);
    if (span > 0) worst = std::max(worst, work / span);
  }
  return worst;
}

class Checker {
 public:
  Checker(const plan::Plan& plan, const trace::Trace& trace, const schedule::Schedule& schedule)
      : plan_(plan),
        schedule_(schedule),
        shape_(schedule::shape_of(plan)),
        times_(schedule::times_of(plan)) {
    find_pairs();
    intervals_.reserve(trace.intervals.size());
    for (const Interval& interval : trace.intervals) {
      if (interval.iteration < 1) continue;  // evaluation, checkpoints
      iterations_ = std::max(iterations_, interval.iteration);
      if (action::is_inside_a_pass(interval.action.kind)) {
        put_back(interval);
      } else if (is_exchange(interval)) {
        exchange_.push_back(interval);
      } else if (interval.action.kind == ActionKind::kSumTied) {
        tied_.push_back(interval);
      } else {
        if (interval.lane == Lane::kCompute) computations_.push_back(interval);
        add(interval);
      }
    }
  }

  Check run() {
    check_bytes();
    check_order();
    check_causality();
    check_tied();
    if (plan_.exchanges_gradients()) {
      check_exchange();
      check_one_at_a_time();
    }
    check_capacity();
    check_memory();
    return std::move(out_);
  }

 private:
  using Key = std::tuple<int64_t, int32_t, Action>;

  // A group of gradients on the collective lane, or one of its messages.
  bool is_exchange(const Interval& interval) const {
    return interval.action.kind == ActionKind::kReduceGradients &&
           plan_.exchanges_gradients(interval.action.stage);
  }

  // A pass that waits for parameters, and an update group by group, stand in several intervals;
  // here they are one.
  void add(const Interval& interval) {
    const Key key{interval.iteration, interval.rank, interval.action};
    const auto at = found_.find(key);
    const bool again = at != found_.end() && interval.lane == Lane::kCompute &&
                       plan_.exchange_overlaps() && interval.start >= at->second->end;
    if (again) {
      gaps_[at->second] += interval.start - at->second->end;
      at->second->end = interval.end;
      return;
    }
    intervals_.push_back(interval);
    found_[key] = &intervals_.back();
  }

  // What a pass communicates inside stands behind its computation; here it is part of the pass
  // again.
  void put_back(const Interval& part) {
    const auto* of = std::get_if<trace::PassPart>(&part.origin);
    if (!of || part.lane != Lane::kCollective || part.bytes != 0) {
      return tell(ViolationKind::kOrder, fmt::format("{} belongs to no pass", name_of(part)));
    }
    const Key key{part.iteration, part.rank, of->pass};
    const auto at = found_.find(key);
    if (at == found_.end()) {
      tell(ViolationKind::kOrder, fmt::format("{} belongs to no pass", name_of(part)));
    } else if (at->second->end != part.start) {
      tell(ViolationKind::kOrder,
           fmt::format("{} does not follow {}", name_of(part), name_of(*at->second)));
    } else {
      at->second->end = part.end;
    }
  }

  void tell(ViolationKind kind, std::string text) {
    const auto same = std::count_if(out_.violations.begin(), out_.violations.end(),
                                    [&](const Violation& v) { return v.kind == kind; });
    if (static_cast<size_t>(same) < kViolationsMax) {
      out_.violations.push_back({kind, std::move(text)});
    }
  }

  static std::string name_of(const Interval& interval) {
    return fmt::format("{} of rank {} in iteration {}", action::to_text(interval.action),
                       interval.rank, interval.iteration);
  }

  const Interval* find(int64_t iteration, int32_t rank, ActionKind kind, int32_t stage,
                       int32_t microbatch) const {
    const auto at = found_.find({iteration, rank, {kind, stage, microbatch}});
    return at == found_.end() ? nullptr : at->second;
  }

  void check_bytes() {
    const int64_t boundary = std::llround(plan_.boundary.value);
    for (const Interval& interval : intervals_) {
      const Action& action = interval.action;
      int64_t wanted = 0;
      if (action::is_communication(action.kind)) wanted = boundary;
      if (action.kind == ActionKind::kReduceGradients) {
        wanted = std::llround(plan_.stages[action.stage].gradients.value);
      }
      if (interval.bytes == wanted) continue;
      tell(ViolationKind::kBytes, fmt::format("{} carries {} bytes, and the Plan says {}",
                                              name_of(interval), interval.bytes, wanted));
    }
  }

  void find_pairs() {
    for (size_t rank = 0; rank < schedule_.pairs.size(); ++rank) {
      for (const schedule::Pair& pair : schedule_.pairs[rank]) {
        for (const Action& side : {pair.forward, pair.backward}) {
          pair_of_[{static_cast<int32_t>(rank), side}] = pair;
        }
      }
    }
  }
  const schedule::Pair* pair_of(int32_t rank, const Action& action) const {
    const auto at = pair_of_.find({rank, action});
    return at == pair_of_.end() ? nullptr : &at->second;
  }
  // Whether these two are co-executed as a pair.
  bool beside(const Interval& one, const Interval& other) const {
    const schedule::Pair* pair = pair_of(one.rank, one.action);
    return pair && one.action != other.action && one.iteration == other.iteration &&
           (pair->forward == other.action || pair->backward == other.action);
  }

  SimDuration duration_of(int32_t rank, const Action& action) const {
    if (const schedule::Pair* pair = pair_of(rank, action)) {
      const schedule::PairDurations durations =
          times_.pair(pair->forward.stage, pair->backward.stage);
      return action == pair->forward ? durations.forward_end : durations.backward_end;
    }
    const plan::StageCost& cost = plan_.cost_on(rank, action.stage);
    if (action.kind == ActionKind::kUpdate) return round_to_ns(cost.update);
    if (action.kind == ActionKind::kReduceGradients)
      return round_to_ns(cost.reduce) + round_to_ns(cost.reduce_hidden);
    return schedule::durations_of(cost).of(action.kind);
  }

  // Every computation and sum once, one after the other as the schedule says.
  void check_order() {
    size_t expected = 0;
    for (size_t r = 0; r < schedule_.ranks.size(); ++r) {
      const auto rank = static_cast<int32_t>(r);
      const Interval* before = nullptr;      // a computation
      const Interval* sum_before = nullptr;  // all-reduces overlap the last computations
      for (int64_t iteration = 1; iteration <= iterations_; ++iteration) {
        for (const Action& action : schedule_.ranks[r]) {
          if (action::is_receive(action.kind) || by_messages(action)) continue;
          const Interval* interval =
              find(iteration, rank, action.kind, action.stage, action.microbatch);
          const bool message = action::is_send(action.kind);
          if (!interval) {
            tell(ViolationKind::kOrder, fmt::format("{} of rank {} in iteration {} is missing",
                                                    action::to_text(action), rank, iteration));
            continue;
          }
          ++expected;
          if (message) continue;
          const bool collective = action.kind == ActionKind::kReduceGradients;
          const Interval*& previous = collective ? sum_before : before;
          // Updates of groups run as soon as they may, outside the order of the schedule.
          const bool ordered = action.kind != ActionKind::kUpdate || !overlaps(action.stage);
          const bool together = previous && beside(*previous, *interval);
          if (together && interval->start != previous->start) {
            tell(ViolationKind::kOrder,
                 fmt::format("{} does not begin with {}", name_of(*interval), name_of(*previous)));
          }
          if (ordered && previous && !together && interval->start < previous->end) {
            tell(ViolationKind::kOrder, fmt::format("{} begins before {} has ended",
                                                    name_of(*interval), name_of(*previous)));
          }
          if (ordered && !(together && previous->end > interval->end)) previous = interval;
          const SimDuration took = worked(interval);
          const SimDuration wanted = duration_of(rank, action);
          if (collective ? took >= wanted : took == wanted) continue;
          tell(ViolationKind::kOrder, fmt::format("{} takes {} ns, and the Plan says {}",
                                                  name_of(*interval), took.ns, wanted.ns));
        }
      }
    }
    if (expected != intervals_.size()) {
      tell(ViolationKind::kOrder, fmt::format("{} intervals are in no schedule, or there twice",
                                              intervals_.size() - expected));
    }
  }

  bool overlaps(int32_t stage) const {
    return plan_.exchange_overlaps() && plan_.exchanges_gradients(stage);
  }
  bool by_messages(const Action& action) const {
    return action.kind == ActionKind::kReduceGradients && plan_.exchanges_gradients(action.stage);
  }
  SimDuration worked(const Interval* interval) const {
    const auto gap = gaps_.find(interval);
    return interval->end - interval->start - (gap == gaps_.end() ? SimDuration{} : gap->second);
  }

  // Each end of a pipeline that holds a copy of a tied embedding sends the other its gradient, once all
  // of its own are there, and updates when the other's is.
  void check_tied() {
    const int64_t bytes = std::llround(plan::tied_bytes(plan_, plan_.model).value);
    std::map<std::pair<int64_t, int32_t>, const Interval*> sent;
    for (const Interval& each : tied_) {
      const bool again = !sent.emplace(std::pair{each.iteration, each.rank}, &each).second;
      if (again || plan_.other_end(each.rank) != each.peer || each.lane != Lane::kLink) {
        tell(ViolationKind::kOrder,
             fmt::format("{} to rank {} is no message of the Plan, or there twice", name_of(each),
                         each.peer));
      }
      if (each.bytes == bytes) continue;
      tell(ViolationKind::kBytes, fmt::format("{} carries {} bytes, and the Plan says {}",
                                              name_of(each), each.bytes, bytes));
    }
    for (const layout::Placement& rank : plan_.ranks) {
      const std::optional<int32_t> other = plan_.other_end(rank.rank);
      for (int64_t i = 1; i <= iterations_ && other; ++i) {
        const auto at = sent.find({i, rank.rank});
        if (at == sent.end()) {
          tell(ViolationKind::kOrder,
               fmt::format("rank {} sends no gradient of the tied embedding in iteration {}",
                           rank.rank, i));
          continue;
        }
        check_tied_message(*at->second, *other);
      }
    }
  }

  void check_tied_message(const Interval& message, int32_t other) {
    for (const int32_t stage : shape_.stages_at(plan_.ranks[static_cast<size_t>(other)].stage)) {
      follows(find(message.iteration, other, ActionKind::kUpdate, stage, -1), &message);
    }
    for (const Interval& each : computations_) {
      if (each.rank != message.rank || each.iteration != message.iteration) continue;
      if (each.action.kind != ActionKind::kUpdate) follows(&message, &each);
    }
    for (const int32_t stage :
         shape_.stages_at(plan_.ranks[static_cast<size_t>(message.rank)].stage)) {
      follows(&message,
              find(message.iteration, message.rank, ActionKind::kReduceGradients, stage, -1));
    }
  }

  // Every rank sums all its gradients, and sends for it what gradient_exchange.h says; parameters
  // are updated once their gradients may be there, and used once they are updated.
  void check_exchange() {
    struct Found {
      int64_t summed = 0, sent = 0;
      SimTime first_end{INT64_MAX}, last_end{0};
    };
    std::map<std::tuple<int64_t, int32_t, int32_t>, Found> found;
    for (const Interval& each : exchange_) {
      Found& here = found[{each.iteration, each.rank, each.action.stage}];
      (each.lane == Lane::kLink ? here.sent : here.summed) += each.bytes;
      if (each.lane == Lane::kLink) continue;
      here.first_end = std::min(here.first_end, each.end);
      here.last_end = std::max(here.last_end, each.end);
    }
    for (int32_t stage = 0; stage < shape_.stages; ++stage) {
      if (!plan_.exchanges_gradients(stage)) continue;
      for (int64_t i = 1; i <= iterations_; ++i) {
        const auto [gradients, sends] = bytes_of_iteration(stage, i);
        for (int32_t replica = 0; replica < shape_.replicas; ++replica) {
          const int32_t rank = shape_.rank_of(stage, replica);
          const Found& here = found[{i, rank, stage}];
          if (here.summed != gradients || here.sent != sends[static_cast<size_t>(replica)]) {
            tell(ViolationKind::kBytes,
                 fmt::format("rank {} sums {} bytes of stage {} in iteration {} and sends {} for "
                             "it, and the Plan says {} and {}",
                             rank, here.summed, stage, i, here.sent, gradients,
                             sends[static_cast<size_t>(replica)]));
          }
          const Interval* update = find(i, rank, ActionKind::kUpdate, stage, -1);
          const SimTime wanted = overlaps(stage) ? here.first_end : here.last_end;
          // An outer step, which stands among the sums, comes after its update.
          const bool local = plan_.exchange && plan_.exchange->is_local();
          if (!local && update && (update->start < wanted || update->end < here.last_end)) {
            tell(ViolationKind::kCausality,
                 fmt::format("{} begins at {} ns and ends at {} ns, its gradients are summed from "
                             "{} to {} ns",
                             name_of(*update), update->start.ns, update->end.ns, here.first_end.ns,
                             here.last_end.ns));
          }
          check_uses(update, rank, stage);
        }
      }
    }
  }

  // The first forward pass of the next iteration ends after the update; with staleness, of the one
  // after.
  void check_uses(const Interval* update, int32_t rank, int32_t stage) {
    if (!update) return;
    const int64_t staleness = plan_.exchange.value_or(plan::Exchange{}).staleness_in_use();
    for (const Action& action : schedule_.ranks[static_cast<size_t>(rank)]) {
      if (action.kind != ActionKind::kForward || action.stage != stage) continue;
      const Interval* next =
          find(update->iteration + 1 + staleness, rank, action.kind, stage, action.microbatch);
      if (next && next->end < update->end) {
        tell(ViolationKind::kCausality,
             fmt::format("{} ends at {} ns, {} at {} ns", name_of(*next), next->end.ns,
                         name_of(*update), update->end.ns));
      }
      return;
    }
  }

  // Summed on each rank of a stage, and sent by each replica.
  struct ExchangeBytes {
    int64_t summed = 0;
    std::vector<int64_t> sent;
  };
  ExchangeBytes bytes_of_iteration(int32_t stage, int64_t iteration) const {
    ExchangeBytes out{.summed = 0,
                      .sent = std::vector<int64_t>(static_cast<size_t>(shape_.replicas))};
    const auto exchange = schedule::detail::exchange_of(plan_, stage, 0);
    const auto add = [&](const schedule::GradientExchange& messages) {
      for (const auto& round : messages.rounds) {
        for (const schedule::ExchangeMessage& message : round) {
          const auto rank = static_cast<size_t>(shape_.rank_of(stage, message.from));
          out.sent[static_cast<size_t>(message.from)] +=
              schedule::detail::message_bytes(exchange, message, plan_.ranks[rank].shards);
        }
      }
    };
    for (const auto& group : exchange.groups) {
      out.summed += group.bytes;
      add(group.exchange);
      if (group.outer.rounds.empty() || !group.steps.begins(iteration)) continue;
      out.summed += group.bytes;
      add(group.outer);
    }
    return out;
  }

  // Passes and updates, in parts as they stand in the Trace.
  void check_one_at_a_time() {
    std::sort(computations_.begin(), computations_.end(), [](const auto& a, const auto& b) {
      return std::tie(a.rank, a.start, a.end) < std::tie(b.rank, b.start, b.end);
    });
    for (size_t i = 1; i < computations_.size(); ++i) {
      const Interval &before = computations_[i - 1], &here = computations_[i];
      if (before.rank != here.rank || before.end <= here.start || beside(before, here)) continue;
      tell(ViolationKind::kOrder,
           fmt::format("{} begins before {} has ended", name_of(here), name_of(before)));
    }
  }

  void follows(const Interval* interval, const Interval* cause) {
    if (!interval || !cause || interval->start >= cause->end) return;
    tell(ViolationKind::kCausality,
         fmt::format("{} begins at {} ns, {} ends at {} ns", name_of(*interval), interval->start.ns,
                     name_of(*cause), cause->end.ns));
  }

  // The message of a boundary, or what would have sent it where both stages are on one rank.
  void check_causality() {
    for (int64_t i = 1; i <= iterations_; ++i) {
      for (int32_t replica = 0; replica < shape_.replicas; ++replica) {
        for (int32_t stage = 0; stage < shape_.stages; ++stage) {
          const int32_t rank = shape_.rank_of(stage, replica);
          for (int32_t m = 0; m < shape_.microbatches_of(replica); ++m) {
            check_pass(i, rank, stage, m, replica);
          }
          const Interval* sum = find(i, rank, ActionKind::kReduceGradients, stage, -1);  // or none
          follows(find(i, rank, ActionKind::kUpdate, stage, -1), sum);
        }
      }
    }
  }

  void check_pass(int64_t i, int32_t rank, int32_t stage, int32_t m, int32_t replica) {
    using enum ActionKind;
    const auto here = [&](ActionKind kind) { return find(i, rank, kind, stage, m); };
    const Interval* back = here(kBackward) ? here(kBackward) : here(kBackwardInput);
    follows(here(kSendActivation), here(kForward));
    follows(here(kSendGradient), back);
    follows(here(kRecompute), here(kForward));
    follows(back, here(kForward));
    follows(back, here(kRecompute));
    follows(here(kBackwardWeight), here(kBackwardInput));
    if (stage > 0) {
      const int32_t before = shape_.rank_of(stage - 1, replica);
      follows(here(kForward), find(i, before, kSendActivation, stage - 1, m));
      follows(here(kForward), find(i, before, kForward, stage - 1, m));
    }
    if (stage + 1 < shape_.stages) {
      const int32_t next = shape_.rank_of(stage + 1, replica);
      follows(back, find(i, next, kSendGradient, stage + 1, m));
      const Interval* whole = find(i, next, kBackward, stage + 1, m);
      follows(back, whole ? whole : find(i, next, kBackwardInput, stage + 1, m));
    }
  }

  void check_capacity() {
    plan::Resources resources(plan_);
    std::vector<std::vector<Demand>> demands;
    std::vector<double> carried;
    std::map<std::pair<int32_t, int32_t>, plan::Route> routes;
    SimTime begin{INT64_MAX}, end{0};
    const auto load = [&](const Interval& interval, SimTime last, const plan::Route& route) {
      demands.resize(resources.all().size());
      carried.resize(resources.all().size());
      for (const plan::Use& use : route) {
        const double bytes = static_cast<double>(interval.bytes) * use.share;
        const double work = bytes / resources.all()[use.resource].capacity.value * 1e9;
        demands[use.resource].push_back({interval.start, last, work, &interval});
        carried[use.resource] += bytes;
      }
    };
    for (const Interval& interval : intervals_) {
      begin = std::min(begin, interval.start);
      end = std::max(end, interval.end);
      if (interval.action.kind == ActionKind::kReduceGradients) {
        load(interval, interval.end, resources.sum_of_gradients(interval.rank));
      }
      if (interval.lane != Lane::kLink) continue;
      const bool shared = !plan::sharers(plan_, interval.rank, interval.peer).empty();
      const auto pair = std::pair{interval.rank, interval.peer};
      if (!routes.contains(pair)) {
        routes[pair] = shared ? resources.shared_message(pair.first, pair.second)
                              : resources.message(pair.first, pair.second);
      }
      const plan::Channel channel = shared ? plan::shared_channel(plan_, pair.first, pair.second)
                                           : plan::expected_channel(plan_, pair.first, pair.second);
      load(interval, interval.end - round_to_ns(channel.latency), routes[pair]);
    }
    for (const std::vector<Interval>* messages : {&exchange_, &tied_}) {
      for (const Interval& interval : *messages) {
        begin = std::min(begin, interval.start);
        end = std::max(end, interval.end);
        if (interval.lane != Lane::kLink) continue;
        const plan::Channel channel = plan::expected_channel(plan_, interval.rank, interval.peer);
        load(interval, interval.end - round_to_ns(channel.latency),
             resources.message(interval.rank, interval.peer));
      }
    }
    for (size_t r = 0; r < demands.size(); ++r) {
      const plan::Resource& resource = resources.all()[r];
      const double span = seconds(end - begin).value;
      out_.resources.push_back({resource.name, resource.capacity, Bytes{carried[r]},
                                span > 0 ? carried[r] / (resource.capacity.value * span) : 0});
      const Demand* late = late_one(demands[r]);
      if (!late) continue;
      tell(ViolationKind::kCapacity,
           fmt::format("{} carries {:.1f} % of what it can ({}) until {} is over", resource.name,
                       100 * overload(demands[r], *late), brief(resource.capacity),
                       name_of(*late->interval)));
    }
    std::stable_sort(out_.resources.begin(), out_.resources.end(),
                     [](const auto& a, const auto& b) { return a.used_share > b.used_share; });
  }

  // When both sides of the pair that the interval belongs to have ended.
  SimTime pair_end(const Interval& side, const schedule::Pair& pair) const {
    SimTime end = side.end;
    for (const Action& each : {pair.forward, pair.backward}) {
      const Interval* found =
          find(side.iteration, side.rank, each.kind, each.stage, each.microbatch);
      if (found) end = std::max(end, found->end);
    }
    return end;
  }

  // By the moments of the Trace, whatever the schedule meant.
  void check_memory() {
    for (size_t r = 0; r < plan_.ranks.size(); ++r) {
      Bytes standing, workspace;
      for (const int32_t stage : shape_.stages_at(plan_.ranks[r].stage)) {
        standing += plan_.stages[static_cast<size_t>(stage)].state;
        standing += schedule::exchange_memory(plan_, static_cast<int32_t>(r), stage).total();
        workspace = std::max(workspace, plan_.stages[static_cast<size_t>(stage)].workspace);
      }
      out_.peak_memory.push_back(standing + workspace);
    }
    // What is kept grows where a forward begins, and shrinks where its backward has ended; of a pair,
    // by layers until both have ended.
    std::map<int32_t, std::map<std::pair<SimTime, bool>, double>> changes;
    for (const auto& [key, interval] : found_) {
      const ActionKind kind = interval->action.kind;
      const double bytes =
          plan_.stages[static_cast<size_t>(interval->action.stage)].activations.value;
      auto& here = changes[interval->rank];
      const schedule::Pair* pair = pair_of(interval->rank, interval->action);
      if (pair && kind == ActionKind::kForward) {
        const double first = schedule::activations_of_pair(plan_, *pair).value;
        here[{interval->start, true}] += first;
        here[{pair_end(*interval, *pair), true}] += bytes - first;
      } else if (kind == ActionKind::kForward) {
        here[{interval->start, true}] += bytes;
      } else if (kind == ActionKind::kBackward || kind == ActionKind::kBackwardWeight) {
        here[{pair ? pair_end(*interval, *pair) : interval->end, false}] -= bytes;
      }
    }
    for (const auto& [rank, steps] : changes) {
      double now = 0, most = 0;
      for (const auto& [when, bytes] : steps) most = std::max(most, now += bytes);
      Bytes& peak = out_.peak_memory[static_cast<size_t>(rank)];
      peak += Bytes{most};
      const cluster::Device& device = plan_.device_of(rank);
      if (plan_.cost_source == plan::CostSource::kStageTimes || peak <= device.memory) continue;
      tell(ViolationKind::kMemory, fmt::format("rank {} keeps {}, its {} has {}", rank, brief(peak),
                                               device.name, brief(device.memory)));
    }
  }

  const plan::Plan& plan_;
  const schedule::Schedule& schedule_;
  schedule::PipelineShape shape_;
  schedule::Times times_;
  std::vector<Interval> intervals_;  // of iterations, passes whole
  std::map<Key, Interval*> found_;
  std::map<std::pair<int32_t, Action>, schedule::Pair> pair_of_;  // by rank and either side
  std::vector<Interval> exchange_;               // groups of gradients, and their messages
  std::vector<Interval> tied_;                   // gradients of a tied embedding
  std::vector<Interval> computations_;           // as they stand in the Trace
  std::map<const Interval*, SimDuration> gaps_;  // of an interval of several parts
  int64_t iterations_ = 0;
  Check out_;
};

}  // namespace

Result<Check> check_trace(const plan::Plan& plan, const trace::Trace& trace) {
  TRY(during(plan::validate(plan), "checking the Plan"));
  for (const Interval& interval : trace.intervals) {
    const bool known = interval.rank >= 0 && interval.rank < std::ssize(plan.ranks) &&
                       interval.action.stage >= 0 &&
                       interval.action.stage < std::ssize(plan.stages) &&
                       (interval.lane != Lane::kLink ||
                        (interval.peer >= 0 && interval.peer < std::ssize(plan.ranks) &&
                         interval.peer != interval.rank));
    if (known) continue;
    return unusable(fmt::format("the Trace has {} on rank {}, which the Plan does not have",
                                action::to_text(interval.action), interval.rank));
  }
  const schedule::Schedule schedule = TRY(schedule::build(plan));
  return Checker(plan, trace, schedule).run();
}

}  // namespace tombolo::sim
