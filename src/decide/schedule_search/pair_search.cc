#include "decide/schedule_search/pair_search.h"

#include <algorithm>
#include <array>
#include <limits>
#include <optional>

#include "base/check.h"
#include "base/random.h"
#include "spec/schedule/longest_path.h"
#include "spec/schedule/passes.h"

namespace tombolo::schedule_search {
namespace {

using action::Action;
using action::ActionKind;
using schedule::Pair;
using schedule::PipelineShape;
using schedule::RankActions;
using schedule::Schedule;
using enum action::ActionKind;

// A pass, or a forward (`first`) co-executed with a backward (the second member). Recomputations are
// left out: their places follow from these.
struct Item {
  Action first;
  std::optional<Action> beside = {};
};
using Items = std::vector<Item>;

Items items_of(const RankActions& order, const std::vector<Pair>& pairs) {
  Items out;
  size_t next = 0;
  for (size_t i = 0; i < order.size(); ++i) {
    const Action& action = order[i];
    const bool pass = action.kind == kForward || action.kind == kBackward ||
                      action.kind == kBackwardInput || action.kind == kBackwardWeight;
    if (!pass) continue;
    if (next < pairs.size() && pairs[next].forward == action) {
      out.push_back({action, pairs[next++].backward});
      ++i;
    } else {
      out.push_back({action});
    }
  }
  return out;
}

bool goes_back(ActionKind kind) { return kind == kBackward || kind == kBackwardInput; }

class PairSearch {
 public:
  PairSearch(const PipelineShape& shape, const schedule::Times& times,
             std::vector<int64_t> in_flight, const PairSearchOptions& options)
      : shape_(shape),
        times_(times),
        in_flight_(std::move(in_flight)),
        options_(options),
        random_(Random(options.seed).stream("pairs")) {}

  void start(const Schedule& schedule) {
    ranks_.clear();
    for (size_t r = 0; r < schedule.ranks.size(); ++r) {
      ranks_.push_back(items_of(schedule.ranks[r],
                                schedule.pairs.empty() ? std::vector<Pair>{} : schedule.pairs[r]));
    }
  }

  // Returns the shortest found from here, nothing if none is shorter than `known`.
  std::optional<Schedule> improve(int64_t known) {
    std::optional<Schedule> best;
    std::array<int64_t, 50> late;
    const std::optional<int64_t> begin = makespan(assemble());
    CHECK(begin, "a published schedule that does not finish");
    late.fill(*begin);
    int64_t now = *begin;
    for (int64_t step = 0; step < options_.steps_max; ++step) {
      const size_t rank = random_.below(ranks_.size());
      Items before = ranks_[rank];
      std::optional<int64_t> then;
      std::optional<Schedule> made;
      if (change(ranks_[rank]) && keeps_order(rank)) {
        made = assemble();
        then = makespan(*made);
      }
      int64_t& earlier = late[static_cast<size_t>(step) % late.size()];
      if (!then || *then > std::max(now, earlier)) {
        ranks_[rank] = std::move(before);
      } else {
        now = *then;
        if (now < known) {
          known = now;
          best = std::move(made);
        }
      }
      earlier = now;
    }
    return best;
  }

  std::optional<int64_t> makespan(const Schedule& schedule) const {
    const auto path = schedule::detail::longest_path(schedule, shape_, times_);
    if (!path.finished(schedule)) return std::nullopt;
    return path.makespan.ns;
  }

 private:
  // One random change of an order; false: there is nothing to change there.
  bool change(Items& items) {
    const size_t at = random_.below(items.size());
    switch (random_.below(options_.split_backward ? 5 : 3)) {
      case 0:
        return move(items, at);
      case 1:
        return join(items, at);
      case 2:
        return part(items, at);
      case 3:
        return split(items, at);
      default:
        return merge(items, at);
    }
  }

  bool move(Items& items, size_t at) {
    constexpr size_t kFar = 6;
    const size_t to =
        std::min(items.size() - 1, at + random_.below(2 * kFar + 1) - std::min(at, size_t{kFar}));
    if (to == at) return false;
    const Item item = items[at];
    items.erase(items.begin() + static_cast<std::ptrdiff_t>(at));
    items.insert(items.begin() + static_cast<std::ptrdiff_t>(to), item);
    return true;
  }

  // With the nearest backward of the other stage that is alone, here or there.
  bool join(Items& items, size_t at) {
    if (items[at].beside || items[at].first.kind != kForward) return false;
    constexpr size_t kFar = 4;
    const size_t begin = at - std::min(at, kFar), end = std::min(items.size(), at + kFar + 1);
    std::vector<size_t> partners;
    for (size_t i = begin; i < end; ++i) {
      const Item& other = items[i];
      if (!other.beside && other.first.kind == kBackward &&
          other.first.stage == shape_.stages - 1 - items[at].first.stage) {
        partners.push_back(i);
      }
    }
    if (partners.empty()) return false;
    const size_t with = partners[random_.below(partners.size())];
    const Item pair{items[at].first, items[with].first};
    const bool here = random_.below(2) == 0;
    items[here ? at : with] = pair;
    items.erase(items.begin() + static_cast<std::ptrdiff_t>(here ? with : at));
    return true;
  }

  bool part(Items& items, size_t at) {
    if (!items[at].beside) return false;
    Item forward{items[at].first}, backward{*items[at].beside};
    if (random_.below(2) == 0) std::swap(forward, backward);
    items[at] = forward;
    items.insert(items.begin() + static_cast<std::ptrdiff_t>(at) + 1, backward);
    return true;
  }

  bool split(Items& items, size_t at) {
    if (items[at].beside || items[at].first.kind != kBackward) return false;
    Action weight = items[at].first;
    items[at].first.kind = kBackwardInput;
    weight.kind = kBackwardWeight;
    const size_t to = std::min(items.size(), at + 1 + random_.below(7));
    items.insert(items.begin() + static_cast<std::ptrdiff_t>(to), {weight});
    return true;
  }

  bool merge(Items& items, size_t at) {
    if (items[at].beside || items[at].first.kind != kBackwardInput) return false;
    Action weight = items[at].first;
    weight.kind = kBackwardWeight;
    const auto found = std::find_if(items.begin(), items.end(), [&](const Item& item) {
      return !item.beside && item.first == weight;
    });
    CHECK(found != items.end(), "half a backward");
    items[at].first.kind = kBackward;
    items.erase(found);
    return true;
  }

  // Per stage microbatches in their order, each forward before its backward, halves in theirs; what
  // the last position hands over to itself in its order; no more in flight than there is memory for.
  bool keeps_order(size_t rank) const {
    std::array<std::array<int32_t, 2>, 2> done{};  // by chunk: F, and B or I
    int64_t held = 0;
    const auto chunk = [&](const Action& a) { return a.stage < shape_.positions() ? 0u : 1u; };
    const bool last = rank + 1 == ranks_.size();
    const auto take = [&](const Action& a) {
      auto& [forwards, backwards] = done[chunk(a)];
      const auto& other = done[1 - chunk(a)];
      if (a.kind == kForward) {
        if (last && chunk(a) == 1 && other[0] <= a.microbatch) return false;
        return ++held <= in_flight_[rank] && a.microbatch == forwards++;
      }
      if (goes_back(a.kind)) {
        if (a.microbatch != backwards++ || a.microbatch >= forwards) return false;
        if (last && chunk(a) == 0 && other[1] <= a.microbatch) return false;
        if (a.kind == kBackward) --held;
        return true;
      }
      --held;
      return a.microbatch < backwards;
    };
    for (const Item& item : ranks_[rank]) {
      // Of a pair both wait for what came before it.
      if (item.beside && last && item.first.microbatch == item.beside->microbatch) return false;
      if (!take(item.first) || (item.beside && !take(*item.beside))) return false;
    }
    return true;
  }

  Schedule assemble() const {
    std::vector<RankActions> compute(ranks_.size());
    std::vector<std::vector<Pair>> pairs(ranks_.size());
    for (size_t r = 0; r < ranks_.size(); ++r) {
      for (const Item& item : ranks_[r]) {
        const Action& backward = item.beside.value_or(item.first);
        if (goes_back(backward.kind) && shape_.recomputes(backward.stage)) {
          compute[r].push_back({kRecompute, backward.stage, backward.microbatch});
        }
        compute[r].push_back(item.first);
        if (!item.beside) continue;
        compute[r].push_back(*item.beside);
        pairs[r].push_back({item.first, *item.beside});
      }
    }
    Schedule out{"pairs"};
    out.ranks = add_communication(compute, shape_, schedule::RecomputeWhen::kWithGradient, pairs);
    out.pairs = std::move(pairs);
    add_update(out.ranks, shape_);
    return out;
  }

  const PipelineShape& shape_;
  const schedule::Times& times_;
  const std::vector<int64_t> in_flight_;
  const PairSearchOptions options_;
  Random random_;
  std::vector<Items> ranks_;
};

bool within(const Schedule& schedule, const schedule::Memory& memory) {
  const std::vector<int64_t> peaks = schedule::peak_in_flight(schedule);
  for (size_t r = 0; r < peaks.size() && !memory.in_flight.empty(); ++r) {
    if (peaks[r] > memory.in_flight[r]) return false;
  }
  return true;
}

bool splits_backwards(const Schedule& schedule) {
  return std::any_of(schedule.ranks.begin(), schedule.ranks.end(), [](const RankActions& order) {
    return std::any_of(order.begin(), order.end(),
                       [](const Action& action) { return action.kind == kBackwardWeight; });
  });
}

}  // namespace

Result<PairsFound> search_pairs(const PipelineShape& shape, const schedule::Times& times,
                                const schedule::Memory& memory, const PairSearchOptions& options) {
  CHECK(shape.pairs && shape.chunks == 2 && shape.replicas == 1 && shape.shared.empty() &&
            shape.mapping == layout::StageMapping::kFold,
        "a search for pairs in another shape than a fold of one pipeline");
  std::vector<Schedule> starts;
  std::vector<int64_t> in_flight(static_cast<size_t>(shape.ranks()));
  for (const layout::ScheduleTraits& row : layout::schedules_with(layout::kPairs)) {
    Schedule published = TRY(schedule::build(row.kind, shape, times));
    if (!within(published, memory)) continue;
    if (!options.split_backward && splits_backwards(published)) continue;
    const std::vector<int64_t> peaks = schedule::peak_in_flight(published);
    for (size_t r = 0; r < peaks.size(); ++r) in_flight[r] = std::max(in_flight[r], peaks[r]);
    starts.push_back(std::move(published));
  }
  if (starts.empty()) {
    return infeasible("neither w nor dualpipev fits with pairs", "more memory, or other schedules");
  }
  for (size_t r = 0; r < in_flight.size() && !memory.in_flight.empty(); ++r) {
    in_flight[r] = memory.in_flight[r];
  }
  PairSearch search(shape, times, in_flight, options);
  PairsFound out{.makespan = {std::numeric_limits<int64_t>::max()}};
  for (const Schedule& start : starts) {
    const SimDuration published = schedule::makespan_of(start, shape, times);
    if (published < out.makespan) {
      out = {.schedule = start, .makespan = published, .start = start.name};
    }
  }
  for (const Schedule& start : starts) {
    search.start(start);
    std::optional<Schedule> better = search.improve(out.makespan.ns);
    if (!better) continue;
    better->name = start.name + ", improved";
    const Status sound = schedule::validate(*better, shape);
    CHECK(sound, "the search for pairs made a broken schedule: {}", sound.error().text());
    out = {.schedule = std::move(*better), .start = start.name, .improved = true};
    out.makespan = schedule::makespan_of(out.schedule, shape, times);
  }
  return out;
}

}  // namespace tombolo::schedule_search
