#include "decide/across/break_even.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <numeric>
#include <string>
#include <utility>

#include "base/parallel.h"
#include "decide/across/line_rates.h"
#include "decide/across/way_order.h"
#include "predict/cost/price_plan.h"
#include "predict/cost/worth.h"
#include "predict/sim/simulate.h"

namespace tombolo::across {
namespace {

constexpr double kStep = 8, kNear = 1.05, kFlat = 1.002;
constexpr size_t kPlayedAtOnce = 2;  // ways that are played before bounds are asked again

// A factor here is of how good it is: a rate, or one over a latency or a price.
class Winners {
 public:
  Winners(const std::vector<Way>& ways, BreakEvenAxis axis, const WaysOptions& options)
      : ways_(ways), axis_(axis), options_(options) {
    for (const Way& way : ways) played_.push_back({{1.0, way}});
  }

  std::vector<WayRange> run() {
    std::vector<WayRange> grid;  // from the best on, whose bounds spare most below
    const double range = break_even_range(axis_);
    for (double factor = range; factor >= 1 / range && !stopped(); factor /= kStep)
      grid.insert(grid.begin(), {factor, winner(factor)});
    if (stopped_) return {};
    ranges_.push_back({0, grid.front().name});
    for (size_t i = 1; i < grid.size(); ++i) refine(grid[i - 1], grid[i]);
    return stopped_ ? std::vector<WayRange>{} : std::move(ranges_);
  }

 private:
  bool stopped() {
    stopped_ = stopped_ || (options_.stop && options_.stop());
    return stopped_;
  }

  void scale(cluster::Cluster& cluster, double factor) const {
    if (axis_ == BreakEvenAxis::kRate) scale_line_rates(cluster, factor);
    for (cluster::WanLink& link : cluster.wan) {
      if (axis_ == BreakEvenAxis::kLatency) {
        link.one_way_latency = link.one_way_latency / factor;
      } else if (axis_ == BreakEvenAxis::kEgress) {
        link.price = link.price / factor;
      }
    }
    if (axis_ != BreakEvenAxis::kDevices) return;
    for (cluster::Datacenter& each : cluster.datacenters) each.price = each.price / factor;
  }

  bool changes_times() const {
    return axis_ == BreakEvenAxis::kRate || axis_ == BreakEvenAxis::kLatency;
  }

  Way at(Way way, double factor) const {
    plan::Job job = way.job;
    scale(job.cluster, factor);
    const Result<plan::Plan> plan = cost::make_plan(job);
    if (changes_times()) {
      const Result<SimDuration> time =
          plan ? sim::iteration_time(*plan) : Result<SimDuration>(tl::unexpected(plan.error()));
      way.iteration = time ? seconds(*time) : Seconds{INFINITY};
    }
    if (plan && std::isfinite(way.iteration.value))
      way.cost = cost::worth_of(*plan, way.iteration).cost.total();
    way.within = is_within(way, options_.limits);
    return way;
  }

  // Where a way is as good at a lower and at a higher factor, it is so between them.
  const Way* between(size_t way, double factor) const {
    const auto above = played_[way].lower_bound(factor);
    if (above == played_[way].begin() || above == played_[way].end()) return nullptr;
    const double worse = score(std::prev(above)->second, options_.objective);
    const double better = score(above->second, options_.objective);
    return worse < better * kFlat && better < worse * kFlat ? &above->second : nullptr;
  }

  // What a way scores at least, and what decides a tie at least: as at the next better factor played.
  std::pair<double, double> bounds(size_t way, double factor) const {
    const auto above = played_[way].lower_bound(factor);
    if (above == played_[way].end()) return {0, 0};
    return {score(above->second, options_.objective),
            other_score(above->second, options_.objective)};
  }

  // Of the ways played at a factor: the least score, and the winner by what decides the tie, then by score.
  struct Lead {
    double least = INFINITY;
    std::pair<double, double> winner{INFINITY, INFINITY};

    Lead(const std::vector<Way>& ways, search::Objective objective) {
      for (const Way& way : ways)
        if (way.within) least = std::min(least, score(way, objective));
      for (const Way& way : ways) {
        if (way.within && score(way, objective) <= most())
          winner = std::min(winner, {other_score(way, objective), score(way, objective)});
      }
    }
    double most() const { return least * (1 + kTie); }
    // Nor do those behind it, whose bounds are no lower.
    bool is_out_of_reach(double bound) const { return bound > most(); }
    // Behind the least, it only wins a tie.
    bool loses(std::pair<double, double> bounds) const {
      return bounds.first > least && std::pair(bounds.second, bounds.first) > winner;
    }
  };

  // Who wins there; "" where none is within the limits.
  std::string winner(double factor) {
    std::vector<size_t> order(ways_.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t a, size_t b) { return bounds(a, factor) < bounds(b, factor); });
    std::vector<Way> all;
    for (auto next = order.begin(); next != order.end();) {
      const Lead lead(all, options_.objective);
      std::vector<size_t> here;
      for (; next != order.end() && here.size() < kPlayedAtOnce; ++next) {
        const auto at_least = bounds(*next, factor);
        if (lead.is_out_of_reach(at_least.first)) {
          next = order.end();
          break;
        }
        if (!lead.loses(at_least)) here.push_back(*next);
      }
      std::vector<Way> played(here.size());
      parallel_for(here.size(), options_.threads, [&](size_t i) {
        const size_t which = here[i];
        const bool alone = ways_[which].kind == WayKind::kAlone && axis_ != BreakEvenAxis::kDevices;
        const bool same = alone || factor == 1;
        const Way* known = same ? &ways_[which] : between(which, factor);
        played[i] = known ? *known : at(ways_[which], factor);
      });
      for (size_t i = 0; i < here.size(); ++i) {
        played_[here[i]].insert_or_assign(factor, played[i]);
        all.push_back(std::move(played[i]));
      }
    }
    put_in_order(all, options_.objective);
    return all.front().within ? all.front().name : "";
  }

  void refine(const WayRange& low, const WayRange& high) {
    if (low.name == high.name || stopped()) return;
    const double middle = std::sqrt(low.from * high.from);
    if (high.from / low.from < kNear) {
      ranges_.push_back({middle, high.name});
      return;
    }
    const WayRange between{middle, winner(middle)};
    refine(low, between);
    refine(between, high);
  }

  const std::vector<Way>& ways_;
  BreakEvenAxis axis_;
  const WaysOptions& options_;
  std::vector<std::map<double, Way>> played_;  // by way and by factor
  std::vector<WayRange> ranges_;
  bool stopped_ = false;
};

}  // namespace

double break_even_range(BreakEvenAxis axis) { return axis == BreakEvenAxis::kLatency ? 8 : 64; }

std::vector<WayRange> break_even(const std::vector<Way>& ways, BreakEvenAxis axis,
                                 const WaysOptions& options) {
  std::vector<WayRange> ranges = Winners(ways, axis, options).run();
  if (axis == BreakEvenAxis::kRate || ranges.empty()) return ranges;
  // Latencies and prices are the other way round.
  std::vector<WayRange> turned;
  for (size_t i = ranges.size(); i-- > 0;)
    turned.push_back({i + 1 < ranges.size() ? 1 / ranges[i + 1].from : 0, ranges[i].name});
  return turned;
}

}  // namespace tombolo::across
