#include "decide/geo/mixed_search.h"

#include <algorithm>
#include <bit>
#include <tuple>

#include "decide/geo/mixed_bound.h"
#include "decide/geo/mixed_chain.h"
#include "decide/geo/mixed_setting.h"
#include "predict/ledger/plan_ledger.h"

namespace tombolo::geo {
namespace {

double bound(search::Objective objective, std::span<const StageRoom> rooms,
             const PipelineNeeds& needs) {
  return objective == search::Objective::kCost ? cost_bound(rooms, needs)
                                               : time_bound(rooms, needs);
}

std::vector<size_t> members(uint64_t set) {
  std::vector<size_t> out;
  for (size_t z = 0; set >> z; ++z) {
    if (set >> z & 1) out.push_back(z);
  }
  return out;
}

uint64_t bits(const std::vector<size_t>& members) {
  uint64_t set = 0;
  for (const size_t z : members) set |= uint64_t{1} << z;
  return set;
}

// The usable subsets of these sizes, larger ones first.
std::vector<uint64_t> subsets(const PricedSetting& priced, size_t datacenters, SetSizes sizes) {
  uint64_t usable = 0;
  for (size_t z = 0; z < datacenters; ++z) {
    if (priced.room(z) > 0) usable |= uint64_t{1} << z;
  }
  uint64_t first = 0, last = 0;
  for (size_t z = 0; z < datacenters; ++z) {
    if (priced.may_be_first(z)) first |= uint64_t{1} << z;
    if (priced.may_be_last(z)) last |= uint64_t{1} << z;
  }
  const auto has_ends = [&](uint64_t set) {  // two of them, where it is more than one
    const uint64_t from = set & first, to = set & last;
    return from != 0 && to != 0 && (std::popcount(set) == 1 || std::popcount(from | to) > 1);
  };
  std::vector<uint64_t> sets;
  for (uint64_t set = usable; set > 0; set = (set - 1) & usable) {
    const auto size = static_cast<size_t>(std::popcount(set));
    if (size < sizes.least || size > sizes.most || !has_ends(set)) continue;
    const auto& must = priced.setting().must_use;
    if (std::all_of(must.begin(), must.end(), [&](uint64_t some) { return (set & some) != 0; })) {
      sets.push_back(set);
    }
  }
  return sets;
}

PipelineNeeds needs_of(const PricedSetting& priced, const std::vector<size_t>& datacenters) {
  PipelineNeeds needs{.layers = priced.layers(), .microbatches = priced.microbatches()};
  for (const size_t z : datacenters) needs.end_min = std::max(needs.end_min, priced.end_min(z));
  return needs;
}

// Any number of stages up to the room, the last of which has `after` stages behind it.
StageRoom room_of(PricedSetting& priced, size_t z, int64_t after) {
  const std::vector<int64_t>& most = priced.most(z, false, false, after + 1);
  return {.layer = priced.layer_min(z),
          .stages = priced.room(z),
          .holds = *std::max_element(most.begin(), most.end()),
          .rate = priced.rate(z),
          .decided = false};
}

constexpr int64_t kSetsLookedAt = 30;

enum class Using { kAll, kSomeTwo };

// The bound of a set of datacenters, however they are ordered; or of all its subsets of two and more: with
// all devices, as if there were one boundary, and by cost the two that cost least were held.
double set_bound(search::Objective objective, PricedSetting& priced,
                 const cluster::Cluster& cluster, const std::vector<size_t>& set,
                 Using what = Using::kAll) {
  std::vector<StageRoom> rooms;
  std::vector<double> rates;
  for (const size_t z : set) {
    rooms.push_back(room_of(priced, z, 0));
    rooms.back().needed = what == Using::kAll;
    rates.push_back(rooms.back().rate);
  }
  PipelineNeeds needs = needs_of(priced, what == Using::kAll ? set : std::vector<size_t>{});
  // Each boundary between them is at least as long as the shortest. The ends of a tied embedding lie
  // in two of them, and send each other gradients for at least the time of the nearest two.
  Seconds tied{kInfinity};
  double egress = kInfinity;
  cost::Hop least{Seconds{kInfinity}, Seconds{kInfinity}, Seconds{kInfinity}};
  for (const size_t a : set) {
    for (const size_t b : set) {
      if (a != b) tied = std::min(tied, priced.tied(a, b));
      const auto& places = cluster.datacenters;
      const cluster::WanLink* link = a < b ? cluster.link(places[a].name, places[b].name) : nullptr;
      if (!link) continue;
      const cost::Hop hop = priced.wan(*link, a, b);
      egress = std::min(egress, ledger::egress_of(*link, priced.boundary(), priced.microbatches(),
                                                  priced.setting().data)
                                    .value);
      least = {std::min(least.transfer, hop.transfer), std::min(least.exposed, hop.exposed),
               std::min(least.occupancy, hop.occupancy)};
    }
  }
  std::sort(rates.begin(), rates.end());
  if (set.size() > 1) {
    needs.rate = rates[0] + rates[1];
    if (least.transfer.value == kInfinity) return kInfinity;
    const auto joined = what == Using::kAll ? static_cast<int64_t>(set.size()) : 2;
    const double boundaries = 2 * real(joined - 1);
    needs.transfers = boundaries * least.transfer.value;
    needs.exposed = boundaries * least.exposed.value;
    needs.period_min = least.occupancy.value;
    needs.egress = real(joined - 1) * egress;
    needs.end_min = std::max(needs.end_min, tied.value);
  }
  return bound(objective, rooms, needs);
}

class SettingSearch {
 public:
  SettingSearch(const MixedTask& task, const MixedSetting& setting, SetSizes sizes,
                double score_max)
      : task_(task),
        sizes_(sizes),
        cluster_(task.open.job.cluster),
        priced_(task.open.job, task.law, setting, task.open.fixed.sequence_parallel),
        tied_(plan::tied_bytes(task.open.job, *task.open.job.model)),
        objective_(task.options.objective),
        limit_(static_cast<size_t>(task.options.top)),
        score_max_(task.options.prune ? score_max : kInfinity) {
    found_.with.resize(cluster_.datacenters.size());
  }

  MixedFindings run() {
    const size_t count = cluster_.datacenters.size();
    std::vector<std::vector<double>> transfer(count, std::vector<double>(count, kInfinity));
    for (size_t a = 0; a < count; ++a) {
      for (size_t b = 0; b < count; ++b) {
        const cluster::WanLink* link =
            a == b ? nullptr
                   : cluster_.link(cluster_.datacenters[a].name, cluster_.datacenters[b].name);
        if (!link || priced_.room(a) == 0 || priced_.room(b) == 0) continue;
        transfer[a][b] = priced_.wan(*link, a, b).transfer.value;
      }
    }
    std::vector<bool> first(count), last(count);
    for (size_t z = 0; z < count; ++z) {
      first[z] = priced_.may_be_first(z);
      last[z] = priced_.may_be_last(z);
    }
    // The most promising sets first: what they find cuts others.
    std::vector<std::pair<double, std::vector<size_t>>> sets;
    for (const uint64_t set : subsets(priced_, count, sizes_)) {
      sets.emplace_back(0, members(set));
      sets.back().first = set_bound(objective_, priced_, cluster_, sets.back().second);
    }
    std::stable_sort(sets.begin(), sets.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    const std::optional<std::vector<bool>> short_enough = sets_in_time(std::count_if(
        sets.begin(), sets.end(), [&](const auto& set) { return set.first <= bar(); }));
    for (const auto& [at_best, set] : sets) {
      set_ = set;
      if (short_enough && !(*short_enough)[bits(set)]) {
        note(&MixedOutlook::cut, bar());
        continue;
      }
      if (stopped() || !memory_may_hold() || at_best == kInfinity || cut(at_best)) continue;
      for (const std::vector<size_t>& order : orders_of(set_, transfer, first, last))
        search_order(order);
    }
    return std::move(found_);
  }

 private:
  // Which sets may have a period that the bar leaves time for; nothing where that is not known, or
  // where there are so few sets that looking at each takes no longer.
  std::optional<std::vector<bool>> sets_in_time(int64_t sets) {
    const bool asked = objective_ != search::Objective::kCost && sets > kSetsLookedAt &&
                       bar() < kInfinity && priced_.microbatches() > 1;
    if (!asked) return std::nullopt;
    Chains chains(priced_, cluster_, sizes_, task_.open.fixed.pipeline, task_.options.stop);
    return chains.sets(chains.period_for(bar() * (1 + kRounding)));
  }

  // Whether a bound leaves nothing to win, and notes it if so.
  bool cut(double at_best) {
    if (!(at_best > bar() * (1 + kRounding))) return false;
    note(&MixedOutlook::cut, at_best);
    return true;
  }

  bool stopped() {
    found_.stopped = found_.stopped || (task_.options.stop && task_.options.stop());
    return found_.stopped;
  }

  double bar() const {
    if (!task_.options.prune) return kInfinity;
    return found_.top.size() == limit_ ? std::min(score_max_, found_.top.back().score) : score_max_;
  }

  void note(double MixedOutlook::*what, double score) {
    found_.all.*what = std::min(found_.all.*what, score);
    for (const size_t z : set_) found_.with[z].*what = std::min(found_.with[z].*what, score);
  }

  // Even if each datacenter were the last along the pipeline.
  bool memory_may_hold() {
    int64_t held = 0;
    for (const size_t z : set_) held += priced_.held(z, 0, priced_.room(z));
    return enough(held);
  }

  bool enough(int64_t held) {
    if (!best_known_) found_.layers_held = std::max(found_.layers_held, held);
    return held >= priced_.layers();
  }

  // One order of the set: stages are chosen from the last datacenter to the first, because memory
  // counts from the end of the pipeline.
  void search_order(const std::vector<size_t>& order) {
    order_ = order;
    needs_ = needs_of(priced_, order);
    hops_.clear();
    for (size_t i = 0; i + 1 < order.size(); ++i) {
      const cluster::WanLink& link = *cluster_.link(cluster_.datacenters[order[i]].name,
                                                    cluster_.datacenters[order[i + 1]].name);
      hops_.push_back(priced_.wan(link, order[i], order[i + 1]));
      needs_.transfers += 2 * hops_.back().transfer.value;
      needs_.exposed += 2 * hops_.back().exposed.value;
      needs_.period_min = std::max(needs_.period_min, hops_.back().occupancy.value);
      needs_.egress += ledger::egress_of(link, priced_.boundary(), priced_.microbatches(),
                                         priced_.setting().data)
                           .value;
    }
    needs_.egress +=
        ledger::tied_egress(cluster_, cluster_.datacenters[order.front()].name,
                            cluster_.datacenters[order.back()].name, tied_, priced_.setting().data)
            .value;
    // A tied embedding's gradients go to the last stage behind those of the first one.
    const double first = priced_.table(order.front(), true, order.size() == 1).at(0, 1).end;
    needs_.end_min =
        std::max(needs_.end_min, first + priced_.tied(order.front(), order.back()).value);
    rooms_.clear();
    for (size_t i = 0; i < order.size(); ++i) {
      rooms_.push_back(room_of(priced_, order[i], static_cast<int64_t>(order.size() - 1 - i)));
    }
    best_ = {};
    choose_stages(order.size(), 0);
    if (!best_known_) return;
    best_known_ = false;
    note(&MixedOutlook::found, best_.score);
    const auto place = std::upper_bound(found_.top.begin(), found_.top.end(), best_, better_split);
    found_.top.insert(place, std::move(best_));
    if (found_.top.size() > limit_) found_.top.pop_back();
  }

  // Datacenters order_[i ..] have their stages, `after` of them in all.
  void choose_stages(size_t i, int64_t after) {
    if (i == 0) return split_layers(after);
    if (stopped()) return;
    const size_t z = order_[i - 1];
    StageRoom& room = rooms_[i - 1];
    const auto before = static_cast<int64_t>(i - 1);  // at least one stage each
    const int64_t most = std::min(priced_.room(z), priced_.layers() - after - before);
    const StageRoom open = room;
    room = room_of(priced_, z, after);
    room.decided = true;
    for (int64_t stages = most; stages >= 1; --stages) {
      room.stages = stages;
      const double at_best = bound(objective_, rooms_, needs_);
      if (cut_here(at_best)) {
        // Fewer stages are slower still; but they may be cheaper.
        if (objective_ == search::Objective::kCost) continue;
        break;
      }
      if (!memory_may_hold_before(i - 1, after)) continue;
      choose_stages(i - 1, after + stages);
    }
    room = open;
  }

  bool cut_here(double at_best) {
    if (best_known_ && task_.options.prune && at_best > best_.score) {
      note(&MixedOutlook::cut, at_best);
      return true;
    }
    return cut(at_best);
  }

  // Datacenters from i on are decided; those before have at least `after` + rooms_[i] behind them.
  bool memory_may_hold_before(size_t i, int64_t after) {
    if (i + 1 == order_.size()) held_after_.assign(order_.size() + 1, 0);
    held_after_[i] = held_after_[i + 1] + priced_.held(order_[i], after, rooms_[i].stages);
    int64_t held = held_after_[i], behind = after + rooms_[i].stages;
    for (size_t j = i; j-- > 0; ++behind) {
      held += priced_.held(order_[j], behind, priced_.room(order_[j]));
    }
    return enough(held);
  }

  // All stages are known: what layers they get, exactly.
  void split_layers(int64_t stages) {
    const std::optional<int64_t> wanted = task_.open.fixed.pipeline;
    if (wanted && *wanted != stages) return;
    double rate = 0;
    PipelineNeeds needs = needs_;
    std::vector<int64_t> counts;
    for (size_t i = 0; i < order_.size(); ++i) {
      const auto inner = real(rooms_[i].stages - 1);
      counts.push_back(rooms_[i].stages);
      rate += priced_.rate(order_[i]) * real(rooms_[i].stages);
      needs.transfers += inner * 2 * priced_.inside(order_[i]).transfer.value;
      needs.exposed += inner * 2 * priced_.inside(order_[i]).exposed.value;
    }
    if (cut_here(bound(objective_, rooms_, needs))) return;
    ++found_.evaluated;
    const PartitionProblem problem = partition_problem(priced_, order_, counts, hops_);
    const bool cost = objective_ == search::Objective::kCost;
    double limit = best_known_ ? std::min(best_.score, bar()) : bar();
    if (limit < kInfinity) limit *= 1 + kRounding;
    if (!task_.options.prune) limit = kInfinity;
    double time_max = limit;
    if (cost && limit < kInfinity && rate > 0) time_max = (limit - needs_.egress) / rate;
    std::optional<Partition> partition = best_partition(problem, time_max);
    if (!partition) {
      // Not better than what is known, or memory.
      if (limit < kInfinity) note(&MixedOutlook::cut, limit);
      return;
    }
    ++found_.feasible;
    MixedSplit split{.setting = priced_.setting(), .order = order_, .partition = *partition};
    split.stages = std::move(counts);
    split.score = cost ? partition->total * rate + needs_.egress : partition->total;
    if (best_known_ && !better_split(split, best_)) return;
    best_ = std::move(split);
    best_known_ = true;
  }

  const MixedTask& task_;
  SetSizes sizes_;
  const cluster::Cluster& cluster_;
  PricedSetting priced_;
  Bytes tied_;  // what the ends of a pipeline send each other
  search::Objective objective_;
  size_t limit_;
  double score_max_;
  MixedFindings found_;
  std::vector<size_t> set_, order_;
  std::vector<cost::Hop> hops_;  // between the datacenters of order_
  std::vector<StageRoom> rooms_;
  std::vector<int64_t> held_after_;
  PipelineNeeds needs_;
  MixedSplit best_;  // of this order
  bool best_known_ = false;
};

}  // namespace

bool better_split(const MixedSplit& a, const MixedSplit& b) {
  const auto key = [](const MixedSplit& s) {
    return std::tie(s.score, s.stages, s.order, s.setting.data, s.setting.micro_batch,
                    s.setting.tensor, s.setting.recompute, s.setting.zero, s.partition.layers);
  };
  if (a.score != b.score) return a.score < b.score;
  if (a.order.size() != b.order.size()) return a.order.size() < b.order.size();
  return key(a) < key(b);
}

void MixedOutlook::merge(const MixedOutlook& other) {
  found = std::min(found, other.found);
  cut = std::min(cut, other.cut);
}

constexpr size_t kBoundedOneByOne =
    64;  // sets; of more, those of seven datacenters and more, at once

double setting_bound(const MixedTask& task, PricedSetting& priced, SetSizes sizes) {
  const cluster::Cluster& cluster = task.open.job.cluster;
  const std::vector<uint64_t> sets = subsets(priced, cluster.datacenters.size(), sizes);
  if (sets.size() > kBoundedOneByOne && sizes.least > 1) {
    uint64_t all = 0;
    for (const uint64_t set : sets) all |= set;
    return set_bound(task.options.objective, priced, cluster, members(all), Using::kSomeTwo);
  }
  double least = kInfinity;
  for (const uint64_t set : sets) {
    least = std::min(least, set_bound(task.options.objective, priced, cluster, members(set)));
  }
  return least;
}

MixedFindings search_setting(const MixedTask& task, const MixedSetting& setting, SetSizes sizes,
                             double score_max) {
  return SettingSearch(task, setting, sizes, score_max).run();
}

}  // namespace tombolo::geo
