#include "decide/geo/mixed_partition.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "base/check.h"

namespace tombolo::geo {
namespace {

constexpr double kSumRounding = 1e-12;  // sums in another order may differ by so much

// Layers are filled under limits: no run of stages above `period`, no end above `end`.
class Filler {
 public:
  explicit Filler(const PartitionProblem& problem) : problem_(problem) {
    for (const cost::Hop& hop : problem.hops) {
      transfers_ += 2 * hop.transfer.value;
      occupancy_ = std::max(occupancy_, hop.occupancy.value);
    }
  }

  // The partition with the shortest round trip.
  std::optional<std::vector<int64_t>> fill(double period, double end) {
    if (occupancy_ > period * (1 + kSumRounding)) return std::nullopt;
    if (!find_room(period, end)) return std::nullopt;
    const size_t p = problem_.stages.size();
    states_.assign(1, State{});
    levels_.assign(1, 0);
    for (size_t s = 0; s < p; ++s) {
      if (!extend(s, period, end)) return std::nullopt;
    }
    // The last level has states with all layers only; the first is the shortest round trip.
    size_t best = levels_[p];
    for (size_t i = levels_[p]; i < states_.size(); ++i) {
      if (states_[i].sum < states_[best].sum) best = i;
    }
    std::vector<int64_t> layers(p);
    for (size_t s = p; s-- > 0;) {
      layers[s] = states_[best].layers;
      best = states_[best].from;
    }
    return layers;
  }

 private:
  // Stages up to here have taken layers 0 .. next - 1.
  struct State {
    int64_t next = 0;
    double charge = 0;  // to the following stage: transfers that no stage had time for
    double sum = 0;     // of passes
    size_t from = 0;
    int64_t layers = 0;
  };

  // The most layers that each stage can have on its own, and all following stages together.
  bool find_room(double period, double end) {
    const size_t p = problem_.stages.size();
    room_after_.assign(p + 1, 0);
    for (size_t s = p; s-- > 0;) {
      const PartitionStage& stage = problem_.stages[s];
      int64_t most = 0;
      for (size_t r = 0; r < stage.table->rows.size(); ++r) {
        const auto& row = stage.table->rows[r];
        int64_t low = 0, high = std::min(stage.most[r], static_cast<int64_t>(row.size()));
        while (low < high) {
          const int64_t middle = (low + high + 1) / 2;
          const StageNumbers& n = row[static_cast<size_t>(middle - 1)];
          if (n.pass <= period * (1 + kSumRounding) && stage.end_of(n) <= end) {
            low = middle;
          } else {
            high = middle - 1;
          }
        }
        most = std::max(most, low);
      }
      if (most == 0) return false;
      room_after_[s] = room_after_[s + 1] + most;
    }
    return room_after_[0] >= problem_.layers;
  }

  // Adds a level: all states of stages 0 .. s.
  bool extend(size_t s, double period, double end) {
    const PartitionStage& stage = problem_.stages[s];
    const auto after = static_cast<int64_t>(problem_.stages.size() - 1 - s);
    const double next_transfer = after > 0 ? 2 * problem_.hops[s].exposed.value : 0;
    buckets_.resize(static_cast<size_t>(problem_.layers) + 1);
    for (auto& bucket : buckets_) bucket.clear();
    for (size_t i = levels_[s]; i < states_.size(); ++i) {
      const State from = states_[i];
      const size_t row = stage.table->row(from.next);
      const int64_t left = problem_.layers - from.next;
      const int64_t least = std::max<int64_t>(1, left - room_after_[s + 1]);
      const int64_t most = std::min(
          {stage.most[row], left - after, static_cast<int64_t>(stage.table->rows[row].size())});
      for (int64_t l = least; l <= most; ++l) {
        const StageNumbers& n = stage.table->at(from.next, l);
        const double load = n.pass + from.charge - period;
        if (load > period * kSumRounding || stage.end_of(n) > end) break;
        offer(buckets_[static_cast<size_t>(from.next + l)],
              {from.next + l, std::max(0.0, load + next_transfer), from.sum + n.pass, i, l});
      }
    }
    levels_.push_back(states_.size());
    for (const auto& bucket : buckets_) states_.insert(states_.end(), bucket.begin(), bucket.end());
    return states_.size() > levels_.back();
  }

  // Keeps states of which none is at least as good in both numbers.
  static void offer(std::vector<State>& bucket, const State& state) {
    for (const State& other : bucket) {
      if (other.charge <= state.charge && other.sum <= state.sum) return;
    }
    std::erase_if(bucket, [&](const State& other) {
      return state.charge <= other.charge && state.sum <= other.sum;
    });
    bucket.push_back(state);
  }

  const PartitionProblem& problem_;
  double transfers_ = 0, occupancy_ = 0;
  std::vector<int64_t> room_after_;
  std::vector<State> states_;
  std::vector<size_t> levels_;  // where each level begins in states_
  std::vector<std::vector<State>> buckets_;
};

class Solver {
 public:
  explicit Solver(const PartitionProblem& problem)
      : problem_(problem), filler_(problem), m_(static_cast<double>(problem.microbatches - 1)) {
    for (const PartitionStage& stage : problem.stages) {
      double pass = kInfinity, end = kInfinity, each = kInfinity;
      for (const auto& row : stage.table->rows) {
        pass = std::min(pass, row.front().pass);
        end = std::min(end, stage.end_of(row.front()));
        for (size_t l = 0; l < row.size(); ++l) {
          each = std::min(each, row[l].pass / static_cast<double>(l + 1));
        }
      }
      period_min_ = std::max(period_min_, pass);
      end_min_ = std::max(end_min_, end);
      each_min_ = std::min(each_min_, each);
    }
    // No round trip is shorter than all layers at the fastest stage's best rate and the transfers.
    round_trip_min_ = each_min_ * static_cast<double>(problem.layers);
    double exposed = 0;
    for (const cost::Hop& hop : problem.hops) {
      round_trip_min_ += 2 * hop.transfer.value;
      exposed += 2 * hop.exposed.value;
      period_min_ = std::max(period_min_, hop.occupancy.value);
    }
    const double work = each_min_ * static_cast<double>(problem.layers) + exposed;
    period_min_ = std::max(period_min_, work / static_cast<double>(problem.stages.size()));
  }

  std::optional<Partition> run(double limit) {
    limit_ = limit;
    double end = kInfinity;
    while (true) {
      const std::optional<Partition> found = best_below(end);
      // Shorter ends only lengthen round trip and period.
      if (!found || found->total - found->end + end_min_ >= limit_) return best_;
      end = std::nextafter(found->end, 0.0);
    }
  }

 private:
  // The least round trip + (m - 1) period with all ends at most `end`; empty where it cannot be
  // below the limit.
  std::optional<Partition> best_below(double end) {
    std::optional<Partition> least;
    double bar = limit_ - end_min_;  // of round trip + (m - 1) period
    const auto attempt = [&](double period) {
      const auto layers = filler_.fill(period, end);
      if (!layers) return false;
      const Partition partition = price_partition(problem_, *layers);
      const double value = partition.total - partition.end;
      if (!least || value < least->total - least->end) least = partition;
      bar = std::min(bar, value);
      if (partition.total < limit_) {
        limit_ = partition.total;
        best_ = partition;
      }
      last_period_ = partition.period;
      return true;
    };
    double high = longest_period(bar);
    if (high < period_min_ || !attempt(high)) return least;
    if (m_ == 0) return least;
    // A good one first: the shortest period, nearly.
    double low = period_min_;
    high = last_period_;
    for (int step = 0; step < 12 && low < high * (1 - 1e-4); ++step) {
      const double middle = (low + high) / 2;
      if (attempt(middle)) {
        high = last_period_;
      } else {
        low = middle;
      }
    }
    // Then all that could still be better, from long periods to short ones.
    double period = std::min(longest_period(bar), std::numeric_limits<double>::max());
    while (period >= low && attempt(period)) {
      period = std::min(longest_period(bar), last_period_ * (1 - 4 * kSumRounding));
    }
    return least;
  }

  double longest_period(double bar) const {
    if (bar == kInfinity || m_ == 0) return std::numeric_limits<double>::max() / 4;
    return (bar - round_trip_min_) / m_;
  }

  const PartitionProblem& problem_;
  Filler filler_;
  double m_;
  double period_min_ = 0, end_min_ = 0, round_trip_min_ = 0, each_min_ = kInfinity;
  double limit_ = kInfinity, last_period_ = 0;
  std::optional<Partition> best_;
};

}  // namespace

Partition price_partition(const PartitionProblem& problem, std::vector<int64_t> layers) {
  const size_t p = problem.stages.size();
  CHECK(layers.size() == p && problem.hops.size() + 1 == p, "{} stages, {} numbers of layers", p,
        layers.size());
  CHECK(std::accumulate(layers.begin(), layers.end(), int64_t{0}) == problem.layers,
        "the partition does not cover {} layers", problem.layers);
  Partition out;
  std::vector<cost::StagePass> passes;
  int64_t first = 0;
  for (size_t s = 0; s < p; ++s) {
    CHECK(layers[s] >= 1, "stage {} of {} has {} layers", s, p, layers[s]);
    const StageNumbers& n = problem.stages[s].table->at(first, layers[s]);
    passes.push_back({Seconds{n.pass}, Seconds{0}});
    out.end = std::max(out.end, problem.stages[s].end_of(n));
    first += layers[s];
  }
  out.round_trip = cost::round_trip(passes, problem.hops).value;
  out.period = cost::period(passes, problem.hops).value;
  out.total = out.round_trip + static_cast<double>(problem.microbatches - 1) * out.period + out.end;
  out.layers = std::move(layers);
  return out;
}

std::optional<Partition> best_partition(const PartitionProblem& problem, double limit) {
  CHECK(problem.layers >= 1 && problem.microbatches >= 1 &&
            problem.hops.size() + 1 == problem.stages.size(),
        "{} layers and {} microbatches for {} stages with {} hops", problem.layers,
        problem.microbatches, problem.stages.size(), problem.hops.size());
  for (const PartitionStage& stage : problem.stages) {
    CHECK(
        stage.table && !stage.table->rows.empty() && stage.most.size() == stage.table->rows.size(),
        "{} limits of memory for {} rows of a stage", stage.most.size(),
        stage.table ? stage.table->rows.size() : 0);
  }
  if (static_cast<int64_t>(problem.stages.size()) > problem.layers) return std::nullopt;
  return Solver(problem).run(limit);
}

}  // namespace tombolo::geo
