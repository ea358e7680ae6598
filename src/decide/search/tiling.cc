#include "decide/search/tiling.h"

#include <algorithm>
#include <numeric>

#include "base/check.h"
#include "decide/search/tiling_board.h"

namespace tombolo::search {
namespace {

using Shapes = std::vector<RectangleShape>;

constexpr int64_t kSubsetSizes = 1'000'000;  // of GPUs over their common divisor

// One search: jobs in an order, ways in an order.
struct Manner {
  std::vector<size_t> order;
  bool by_fit = false;  // the tightest way of any shape first, instead of the best shape first
  size_t choices = 0;   // of a shape that are looked at
  int64_t steps = 0;
};

class TilingSearch {
 public:
  TilingSearch(std::span<const Shapes> jobs, Tiling& best, const Manner& manner)
      : jobs_(jobs), best_(best), manner_(manner), tiles_(jobs.size()) {}

  // Whether everything was looked at.
  bool run(const TilingBoard& board) {
    int64_t left = 0;
    for (const size_t job : manner_.order) left += jobs_[job].front().gpus();
    place(0, board, left, false);
    best_.steps += steps_;
    return complete_;
  }

 private:
  struct Way {
    size_t shape;
    TilingChoice choice;
  };

  bool better() const { return gpus_ > best_.gpus || (gpus_ == best_.gpus && lost_ < best_.lost); }
  // As good as any tiling: `left` GPUs are still to be placed.
  bool hopeless(const TilingBoard& board, int64_t left) const {
    const int64_t most = std::min(best_.gpus_at_most, gpus_ + std::min(left, board.free_gpus()));
    return most < best_.gpus || (most == best_.gpus && lost_ >= best_.lost);
  }

  void place(size_t at, const TilingBoard& board, int64_t left, bool skipped) {
    if (better()) {
      best_.tiles = tiles_;
      best_.gpus = gpus_;
      best_.lost = lost_;
      best_.largest_free = board.largest_free();
    }
    if (at == manner_.order.size() || hopeless(board, left)) return;
    if (steps_ >= manner_.steps) {
      complete_ = false;
      return;
    }
    const size_t job = manner_.order[at];
    const Shapes& shapes = jobs_[job];
    left -= shapes.front().gpus();
    // Where an equal job found no place this one needs none: the two might be exchanged.
    const bool like_last = at > 0 && jobs_[manner_.order[at - 1]] == shapes;
    if (!skipped || !like_last) {
      for (const Way& way : ways(shapes, board)) {
        const RectangleShape& shape = shapes[way.shape];
        const double lost_before = lost_;
        TilingBoard next = board;
        tiles_[job].emplace(Tile{way.shape, {}, {}});
        next.take(way.choice, *tiles_[job]);
        gpus_ += shape.gpus();
        lost_ += shape.lost;
        place(at + 1, next, left, false);
        gpus_ -= shape.gpus();
        lost_ = lost_before;
        tiles_[job].reset();
        if (hopeless(board, left + shape.gpus())) return;
        if (steps_ >= manner_.steps) {
          complete_ = false;
          return;
        }
      }
    }
    place(at + 1, board, left, true);
  }

  std::vector<Way> ways(const Shapes& shapes, const TilingBoard& board) {
    std::vector<Way> out;
    for (size_t i = 0; i < shapes.size(); ++i) {
      for (TilingChoice& choice : board.choices(shapes[i], manner_.choices, complete_, steps_)) {
        out.push_back({i, std::move(choice)});
      }
    }
    ++steps_;
    if (manner_.by_fit) {
      std::ranges::stable_sort(out, {}, [](const Way& way) { return way.choice.fit(); });
    }
    return out;
  }

  std::span<const Shapes> jobs_;
  Tiling& best_;
  const Manner& manner_;
  std::vector<std::optional<Tile>> tiles_;
  int64_t gpus_ = 0;
  double lost_ = 0;
  int64_t steps_ = 0;
  bool complete_ = true;
};

}  // namespace

int64_t subset_sum(int64_t capacity, std::span<const int64_t> sizes) {
  int64_t unit = 0;
  for (const int64_t size : sizes) unit = std::gcd(unit, size);
  const int64_t sum = std::accumulate(sizes.begin(), sizes.end(), int64_t{0});
  if (sum <= capacity) return sum;
  if (capacity / unit > kSubsetSizes) return capacity;
  std::vector<bool> reached(static_cast<size_t>(capacity / unit + 1));
  reached[0] = true;
  for (const int64_t each : sizes) {
    const auto size = static_cast<size_t>(each / unit);
    for (size_t at = reached.size(); at-- > size;) {
      if (reached[at - size]) reached[at] = true;
    }
  }
  size_t most = reached.size() - 1;
  while (!reached[most]) --most;
  return static_cast<int64_t>(most) * unit;
}

Tiling tile(int64_t rails, int64_t domains, std::span<const Shapes> jobs, int64_t steps_max) {
  Tiling best;
  best.tiles.resize(jobs.size());
  const TilingBoard board(rails, domains);
  best.largest_free = board.largest_free();
  std::vector<int64_t> sizes;
  std::vector<size_t> order;
  for (size_t job = 0; job < jobs.size(); ++job) {
    if (jobs[job].empty()) continue;
    for (const RectangleShape& shape : jobs[job]) {
      CHECK(shape.gpus() == jobs[job][0].gpus() && shape.rails <= rails && shape.domains <= domains,
            "job {}: a shape of {} x {} on {} x {}", job, shape.rails, shape.domains, rails,
            domains);
    }
    order.push_back(job);
    sizes.push_back(jobs[job][0].gpus());
  }
  best.gpus_at_most = subset_sum(rails * domains, sizes);
  if (order.empty()) {
    best.proven = true;
    return best;
  }

  // Equal jobs side by side, in each order.
  const auto ordered = [&](auto size) {
    std::vector<size_t> out = order;
    std::ranges::stable_sort(out, std::greater<>(), [&](size_t job) {
      const RectangleShape& shape = jobs[job][0];
      return std::tuple(size(shape), shape.gpus(), shape.rails, jobs[job].size());
    });
    return out;
  };
  const auto gpus = ordered([](const RectangleShape& shape) { return shape.gpus(); });
  const auto by_rails = ordered([](const RectangleShape& shape) { return shape.rails; });
  const auto by_domains = ordered([](const RectangleShape& shape) { return shape.domains; });
  constexpr size_t kFew = 16, kMany = 20'000;
  for (const Manner& manner :
       {Manner{gpus, false, kFew, steps_max / 8}, Manner{gpus, true, kFew, steps_max / 8},
        Manner{by_rails, true, kFew, steps_max / 8}, Manner{by_domains, true, kFew, steps_max / 8},
        Manner{gpus, false, kMany, steps_max / 2}}) {
    const bool complete = TilingSearch(jobs, best, manner).run(board);
    best.proven = complete || (best.gpus == best.gpus_at_most && best.lost == 0);
    if (best.proven) break;
  }
  if (best.proven) best.gpus_at_most = best.gpus;
  return best;
}

}  // namespace tombolo::search
