#include "decide/geo/mixed_chain.h"

#include <algorithm>
#include <bit>

#include "base/check.h"

namespace tombolo::geo {
namespace {

constexpr double kPassRounding = 1e-12;    // sums in another order may differ by so much
constexpr int64_t kWorkMax = 200'000'000;  // comparisons: a second or two
constexpr size_t kStepsMax = 8'000'000;    // kept of paths

}  // namespace

// One question, worked out.
class Chains::Walk {
 public:
  Walk(const Chains& chains, Ask ask, double period, double once_max)
      : c_(chains),
        ask_(ask),
        period_(period * (1 + kRounding)),
        once_max_(once_max * (1 + kRounding)),
        sets_(size_t{1} << chains.places_.size()),
        ended_(sets_ * chains.places_.size()),
        coming_(static_cast<size_t>(chains.stages_) + 1),
        going_(coming_.size()) {}

  ChainAnswer run() {
    prepare();
    for (uint64_t set = 1; set < sets_; ++set) {
      if ((set & ~usable_) != 0) continue;
      for (size_t z = 0; z < c_.places_.size(); ++z) {
        if ((set >> z & 1) == 0) continue;
        place(set, z);
        if (work_ > kWorkMax || steps_.size() > kStepsMax || (c_.stop_ && c_.stop_())) {
          return {.known = false, .once = kInfinity, .chain = {}};
        }
        if (ask_ == Ask::kAny && best_step_ >= 0) return answer();
      }
    }
    return answer();
  }

  std::vector<bool> found_sets() { return std::move(found_); }

 private:
  // One path to a state.
  struct Path {
    int64_t layers = 0;
    double spare = 0;   // of the front stage
    double charge = 0;  // of the next stage in front, once it is known
    double cost = 0;    // of passes and transfers, less credit for layers
    int32_t step = -1;  // how it came there
  };

  // Keeps those of which none is at least as good in everything.
  template <class NotWorse>
  static bool offer(std::vector<Path>& paths, const Path& path, const NotWorse& not_worse,
                    int64_t& work) {
    work += std::ssize(paths) + 1;
    for (const Path& other : paths) {
      if (not_worse(other, path)) return false;
    }
    std::erase_if(paths, [&](const Path& other) { return not_worse(path, other); });
    paths.push_back(path);
    return true;
  }

  // A datacenter with its stages, and what lies behind it.
  struct Step {
    int32_t behind;
    int16_t place, stages;
  };

  void prepare() {
    const size_t count = c_.places_.size();
    fits_.assign(count, 0);
    found_.assign(sets_, false);
    for (size_t z = 0; z < count; ++z) {
      const Place& place = c_.places_[z];
      if (place.room == 0) continue;
      usable_ |= uint64_t{1} << z;
      while (fits_[z] < c_.layers_ &&
             place.pass[static_cast<size_t>(fits_[z]) + 1] <= period_ * (1 + kPassRounding)) {
        ++fits_[z];
      }
      most_exposed_ = std::max(most_exposed_, 2 * place.inside.exposed.value);
      for (const auto& hop : c_.hops_[z]) {
        if (hop) most_exposed_ = std::max(most_exposed_, 2 * hop->exposed.value);
      }
    }
    held_.assign(static_cast<size_t>(c_.stages_) + 2, std::vector<int64_t>(sets_, 0));
    for (size_t q = 1; q < held_.size(); ++q) {
      for (uint64_t set = 1; set < sets_; ++set) {
        const auto z = static_cast<size_t>(std::countr_zero(set));
        held_[q][set] = held_[q][set & (set - 1)];
        if (usable_ >> z & 1) {
          held_[q][set] += c_.places_[z].room * most(z, static_cast<int64_t>(q));
        }
      }
    }
  }

  // Layers that a stage with others behind it may have.
  int64_t most(size_t z, int64_t from_end) const {
    const std::vector<int64_t>& holds = c_.places_[z].holds;
    return std::min(fits_[z], holds[std::min(static_cast<size_t>(from_end), holds.size() - 1)]);
  }

  bool counts(uint64_t set) const {
    const auto size = static_cast<size_t>(std::popcount(set));
    return size >= c_.sizes_.least && size <= c_.sizes_.most &&
           std::all_of(c_.must_use_.begin(), c_.must_use_.end(),
                       [&](uint64_t some) { return (set & some) != 0; });
  }

  bool by_cost() const { return ask_ == Ask::kShortest; }

  // All paths whose front datacenter is z, with the others of the set behind it.
  void place(uint64_t set, size_t z) {
    const uint64_t behind = set & ~(uint64_t{1} << z);
    set_ = set;
    counts_ = counts(set);
    double end = 0;
    for (size_t y = 0; y < c_.places_.size(); ++y) {
      if (set >> y & 1) end = std::max(end, c_.places_[y].end);
    }
    end_ = end;
    for (auto& paths : going_) paths.clear();
    if (behind == 0) {
      std::vector<Path> first(1);
      if (c_.places_[z].may_be_last) extend(z, 0, first);
    } else {
      for (auto& paths : coming_) paths.clear();
      for (size_t y = 0; y < c_.places_.size(); ++y) {
        if ((behind >> y & 1) == 0) continue;
        const auto& hop = c_.hops_[z][y];
        if (!hop || hop->occupancy.value > period_) continue;
        for (const auto& [stages, path] : ended_[behind * c_.places_.size() + y]) {
          Path next = path;
          next.charge = std::max(0.0, 2 * hop->exposed.value - path.spare);
          next.cost += 2 * hop->transfer.value;
          if (next.charge < period_) offer_charged(coming_[static_cast<size_t>(stages)], next);
        }
      }
      // Who holds as much with fewer stages has no less memory in front of them.
      std::vector<Path> with_fewer;
      for (int64_t stages = 1; stages < c_.stages_; ++stages) {
        std::vector<Path>& paths = coming_[static_cast<size_t>(stages)];
        if (!c_.wanted_) {
          std::erase_if(paths, [&](const Path& path) {
            return std::any_of(with_fewer.begin(), with_fewer.end(),
                               [&](const Path& other) { return charged_not_worse(other, path); });
          });
          for (const Path& path : paths) offer_charged(with_fewer, path);
        }
        if (!paths.empty()) extend(z, stages, paths);
      }
    }
    auto& ended = ended_[set * c_.places_.size() + z];
    for (size_t stages = 0; stages < going_.size(); ++stages) {
      for (const Path& path : going_[stages])
        ended.emplace_back(static_cast<int64_t>(stages), path);
    }
  }

  // Adds stages in z, one after the other, in front of `behind` stages.
  void extend(size_t z, int64_t behind, std::vector<Path> paths) {
    const Place& place = c_.places_[z];
    std::vector<Path> next;
    for (int64_t k = 1; k <= place.room && behind + k <= c_.stages_; ++k) {
      if (k > 1 && place.inside.occupancy.value > period_) return;
      const int64_t from_end = behind + k;
      // Layers of the stages that are left here, and of datacenters that are still free, at most.
      const int64_t in_front = held_[static_cast<size_t>(from_end) + 1][usable_ & ~set_] +
                               (place.room - k) * most(z, from_end + 1);
      const bool is_last = from_end == 1;
      const std::vector<double>& pass = is_last ? place.last : place.pass;
      next.clear();
      for (const Path& path : paths) {
        int64_t layers = std::min(fits_[z], is_last ? place.last_holds : most(z, from_end));
        for (; layers >= 1; --layers) {
          const double took = pass[static_cast<size_t>(layers)];
          const double spare = period_ - took - path.charge;
          if (spare < -period_ * kPassRounding) continue;
          Path longer{.layers = path.layers + layers,
                      .spare = std::clamp(spare, 0.0, most_exposed_),
                      .charge = 0,
                      .cost = path.cost + took - c_.credit_ * real(layers),
                      .step = path.step};
          if (worth_it(longer, from_end, in_front)) offer_spare(next, longer);
          if (spare >= most_exposed_) break;  // fewer layers would gain nothing
        }
      }
      for (const Path& path : next) note(path, z, k, from_end);
      if (ask_ == Ask::kAny && best_step_ >= 0) return;
      if (next.empty()) return;
      paths.clear();
      for (const Path& path : next) {
        std::vector<Path>& going = going_[static_cast<size_t>(from_end)];
        Path ended = path;
        if (offer_spare(going, ended)) going.back().step = add_step(path.step, z, k);
        Path inner = path;
        inner.charge = std::max(0.0, 2 * place.inside.exposed.value - path.spare);
        inner.cost += 2 * place.inside.transfer.value;
        offer_charged(paths, inner);
      }
    }
  }

  // Whether all layers can be held with those that may come in front, in time.
  bool worth_it(const Path& path, int64_t from_end, int64_t in_front) const {
    if (path.layers + in_front < c_.layers_) return false;
    if (!by_cost()) return true;
    // A pipeline that this path stands for has at least `need` layers so far, and the others take
    // their time.
    const int64_t need = std::max(from_end, c_.layers_ - in_front);
    const double once = path.cost + c_.layer_min_ * real(c_.layers_) +
                        (c_.credit_ - c_.layer_min_) * real(need) + end_;
    return once <= once_max_;
  }

  void note(const Path& path, size_t z, int64_t k, int64_t stages) {
    if (!counts_ || path.layers < c_.layers_ || (c_.wanted_ && *c_.wanted_ != stages)) return;
    if (!c_.places_[z].may_be_first) return;
    found_[set_] = true;
    if (ask_ == Ask::kSets) return;
    const double once = by_cost() ? path.cost + c_.credit_ * real(c_.layers_) + end_ : 0;
    if (once > once_max_ || once >= once_) return;
    once_ = once;
    best_step_ = add_step(path.step, z, k);
  }

  int32_t add_step(int32_t behind, size_t z, int64_t k) {
    steps_.push_back({behind, static_cast<int16_t>(z), static_cast<int16_t>(k)});
    return static_cast<int32_t>(steps_.size()) - 1;
  }

  bool charged_not_worse(const Path& a, const Path& b) const {
    return a.layers >= b.layers && a.charge <= b.charge && (!by_cost() || a.cost <= b.cost);
  }
  bool offer_charged(std::vector<Path>& paths, const Path& path) {
    return offer(
        paths, path, [&](const Path& a, const Path& b) { return charged_not_worse(a, b); }, work_);
  }
  bool offer_spare(std::vector<Path>& paths, const Path& path) {
    return offer(
        paths, path,
        [&](const Path& a, const Path& b) {
          return a.layers >= b.layers && a.spare >= b.spare && (!by_cost() || a.cost <= b.cost);
        },
        work_);
  }

  ChainAnswer answer() const {
    if (best_step_ < 0) return {};
    Chain chain;
    for (int32_t s = best_step_; s >= 0; s = steps_[static_cast<size_t>(s)].behind) {
      chain.order.push_back(static_cast<size_t>(steps_[static_cast<size_t>(s)].place));
      chain.stages.push_back(steps_[static_cast<size_t>(s)].stages);
    }
    return {.known = true, .once = once_, .chain = std::move(chain)};
  }

  const Chains& c_;
  Ask ask_;
  double period_, once_max_;
  size_t sets_;
  uint64_t usable_ = 0;
  std::vector<int64_t> fits_;               // layers by datacenter, within the period
  std::vector<std::vector<int64_t>> held_;  // by the first stage from the end and a set, at most
  double most_exposed_ = 0;                 // more to spare is of no use
  // By set and front datacenter: paths by their stages.
  std::vector<std::vector<std::pair<int64_t, Path>>> ended_;
  std::vector<std::vector<Path>> coming_, going_;  // of the state in work, by stages
  uint64_t set_ = 0;
  bool counts_ = false;
  double end_ = 0;
  std::vector<Step> steps_;
  std::vector<bool> found_;
  double once_ = kInfinity;
  int32_t best_step_ = -1;
  int64_t work_ = 0;
};

Chains::Chains(PricedSetting& priced, const cluster::Cluster& cluster, SetSizes sizes,
               std::optional<int64_t> wanted, std::function<bool()> stop)
    : places_(cluster.datacenters.size()),
      hops_(places_.size(), std::vector<std::optional<cost::Hop>>(places_.size())),
      must_use_(priced.setting().must_use),
      sizes_(sizes),
      wanted_(wanted),
      stop_(std::move(stop)),
      layers_(priced.layers()),
      microbatches_(real(priced.microbatches())) {
  for (size_t z = 0; z < places_.size(); ++z) stages_ += places_[z].room = priced.room(z);
  stages_ = std::min({stages_, layers_, wanted.value_or(layers_)});
  needs_ = {.layers = layers_, .microbatches = priced.microbatches()};
  needs_.end_min = kInfinity;
  for (size_t z = 0; z < places_.size(); ++z) {
    Place& place = places_[z];
    if (place.room == 0) continue;
    place.may_be_first = priced.may_be_first(z);
    place.may_be_last = priced.may_be_last(z);
    for (const bool head : {false, true}) {
      std::vector<double>& passes = head ? place.last : place.pass;
      passes.assign(static_cast<size_t>(layers_) + 1, kInfinity);
      for (const auto& row : priced.table(z, false, head).rows) {
        for (size_t l = 0; l < row.size(); ++l)
          passes[l + 1] = std::min(passes[l + 1], row[l].pass);
      }
      for (size_t l = 1; l < passes.size(); ++l) {
        layer_min_ = std::min(layer_min_, passes[l] / real(static_cast<int64_t>(l)));
        if (l > 1) credit_ = std::max(credit_, passes[l] - passes[l - 1]);
      }
    }
    place.holds.assign(static_cast<size_t>(stages_) + 1, 0);
    for (int64_t q = 1; q <= stages_; ++q) {
      const std::vector<int64_t>& most = priced.most(z, false, false, q);
      place.holds[static_cast<size_t>(q)] = *std::max_element(most.begin(), most.end());
    }
    const std::vector<int64_t>& last = priced.most(z, false, true, 1);
    place.last_holds = *std::max_element(last.begin(), last.end());
    place.inside = priced.inside(z);
    place.end = priced.end_min(z);
    needs_.end_min = std::min(needs_.end_min, place.end);
    rooms_.push_back({.layer = priced.layer_min(z),
                      .stages = place.room,
                      .holds = stages_ > 0 ? place.holds[1] : 0,
                      .rate = priced.rate(z),
                      .decided = false});
  }
  credit_ = std::max(credit_, layer_min_);
  double transfer = kInfinity;
  for (size_t a = 0; a < places_.size(); ++a) {
    for (size_t b = 0; b < places_.size(); ++b) {
      if (a == b || places_[a].room == 0 || places_[b].room == 0) continue;
      const cluster::WanLink* link =
          cluster.link(cluster.datacenters[a].name, cluster.datacenters[b].name);
      if (!link) continue;
      hops_[a][b] = priced.wan(*link, a, b);
      transfer = std::min(transfer, hops_[a][b]->transfer.value);
    }
  }
  if (sizes.least > 1)
    needs_.transfers = 2 * real(static_cast<int64_t>(sizes.least) - 1) * transfer;
  period_min_ = rooms_.empty() ? kInfinity : period_bound(rooms_, needs_);
}

ChainAnswer Chains::any(double period) { return Walk(*this, Ask::kAny, period, kInfinity).run(); }

ChainAnswer Chains::shortest(double period, double once_max) {
  return Walk(*this, Ask::kShortest, period, once_max).run();
}

std::optional<std::vector<bool>> Chains::sets(double period) {
  Walk walk(*this, Ask::kSets, period, kInfinity);
  if (!walk.run().known) return std::nullopt;
  return walk.found_sets();
}

double Chains::time_from(double period) const {
  PipelineNeeds needs = needs_;
  needs.period_min = std::max(needs.period_min, period);
  return rooms_.empty() ? kInfinity : time_bound(rooms_, needs);
}

double Chains::period_for(double time) const {
  if (microbatches_ <= 1) return kInfinity;
  double low = 0, high = time / (microbatches_ - 1);
  for (int step = 0; step < 60; ++step) {
    const double middle = (low + high) / 2;
    (time_from(middle) <= time ? low : high) = middle;
  }
  return high;
}

}  // namespace tombolo::geo
