#include "decide/across/break_even.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <numeric>
#include <string>
#include <utility>

#include "base/parallel.h"
#include "decide/across/way_order.h"
#include "predict/cost/price_plan.h"
#include "predict/cost/worth.h"
#include "predict/sim/simulate.h"

namespace tombolo::across {
namespace {

constexpr double kRange = 64, kStep = 8, kNear = 1.05, kFlat = 1.002;
constexpr size_t kAtOnce = 4;  // ways that are played before bounds are asked again

class BreakEven {
 public:
  BreakEven(const std::vector<Way>& ways, const WaysOptions& options)
      : ways_(ways), options_(options) {
    for (const Way& way : ways) played_.push_back({{1.0, way}});
  }

  std::vector<WayRange> run() {
    std::vector<WayRange> grid;  // from the highest rate on, whose bounds spare most below
    for (double factor = kRange; factor >= 1 / kRange && !stopped(); factor /= kStep)
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

  Way at_rate(Way way, double factor) const {
    plan::Job job = way.job;
    for (cluster::WanLink& link : job.cluster.wan) {
      link.node_pair_limit = link.node_pair_limit * factor;
      if (link.path_limit) link.path_limit = *link.path_limit * factor;
    }
    const Result<plan::Plan> plan = cost::make_plan(job);
    const Result<SimDuration> time =
        plan ? sim::iteration_time(*plan) : Result<SimDuration>(tl::unexpected(plan.error()));
    way.iteration = time ? seconds(*time) : Seconds{INFINITY};
    if (time) way.cost = cost::worth_of(*plan, way.iteration).cost.total();
    way.within = is_within(way, options_.limits);
    return way;
  }

  // Where a way takes as long at a lower and at a higher rate, it does so between them.
  const Way* between(size_t way, double factor) const {
    const auto above = played_[way].lower_bound(factor);
    if (above == played_[way].begin() || above == played_[way].end()) return nullptr;
    const Seconds slow = std::prev(above)->second.iteration, fast = above->second.iteration;
    return slow < fast * kFlat && fast < slow * kFlat ? &above->second : nullptr;
  }

  // Who wins there; "" where none is within the limits.
  std::string winner(double factor) {
    std::vector<size_t> order(ways_.size());
    std::iota(order.begin(), order.end(), 0);
    const auto bound = [&](size_t way) {
      const auto above = played_[way].lower_bound(factor);
      return above == played_[way].end() ? 0.0 : score(above->second, options_.objective);
    };
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t a, size_t b) { return bound(a) < bound(b); });
    std::vector<Way> all;
    double best = INFINITY;  // of those within the limits
    for (size_t begin = 0; begin < order.size(); begin += kAtOnce) {
      if (bound(order[begin]) > best * (1 + kTie)) break;
      std::vector<Way> here(std::min(kAtOnce, order.size() - begin));
      parallel_for(here.size(), options_.threads, [&](size_t i) {
        const size_t at = order[begin + i];
        const bool same = ways_[at].kind == WayKind::kAlone || factor == 1;
        const Way* known = same ? &ways_[at] : between(at, factor);
        here[i] = known ? *known : at_rate(ways_[at], factor);
      });
      for (size_t i = 0; i < here.size(); ++i) {
        if (here[i].within) best = std::min(best, score(here[i], options_.objective));
        played_[order[begin + i]].insert_or_assign(factor, here[i]);
        all.push_back(std::move(here[i]));
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
  const WaysOptions& options_;
  std::vector<std::map<double, Way>> played_;  // by way and by factor
  std::vector<WayRange> ranges_;
  bool stopped_ = false;
};

}  // namespace

std::vector<WayRange> break_even(const std::vector<Way>& ways, const WaysOptions& options) {
  return BreakEven(ways, options).run();
}

}  // namespace tombolo::across
