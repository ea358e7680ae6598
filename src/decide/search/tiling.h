// Several jobs on one rail-only cluster: who gets which rails of which domains.
//
// A GPU is (domain, rail). Rails reach their own GPUs in every domain and nothing else, so bytes for
// another rail of another domain pass a GPU that has the one's domain and the other's rail. A job
// passes none of its bytes through another job's GPU exactly if it has some rails of some domains,
// all combinations of them: a rectangle, once rows and columns are put side by side. Which rails and
// which domains is all the same: none lies nearer to another. docs/laws/rectangles.md.
//
// The search places jobs one after the other, in each of their shapes, in every way that differs:
// domains that have the same rails free are as good as each other, and so are rails. It ends with
// the proof that no tiling is better, or after `steps_max` steps.
// Cost: some 0.1 us a step, so that the longest search takes about a second; memory O(jobs^2).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace tombolo::search {

struct RectangleShape {
  int64_t rails = 1;    // GPUs of each domain
  int64_t domains = 1;  // of which it has as many
  double lost = 0;  // what this shape costs more than the best one; any unit, the same for all jobs

  int64_t gpus() const { return rails * domains; }
  bool operator==(const RectangleShape&) const = default;
};

// Of consecutive numbers.
struct NumberRange {
  int64_t first = 0;
  int64_t count = 0;
  bool operator==(const NumberRange&) const = default;
};
using NumberRanges = std::vector<NumberRange>;  // ascending, apart

struct Tile {
  size_t shape = 0;  // of the job's
  NumberRanges rails, domains;
};

struct Tiling {
  std::vector<std::optional<Tile>> tiles;  // of each job; nothing: it has no place
  int64_t gpus = 0;                        // of placed jobs
  double lost = 0;                         // by their shapes
  int64_t gpus_at_most = 0;                // no tiling places more
  bool proven = false;                     // nor loses less with as many
  int64_t steps = 0;                       // of the search
  RectangleShape largest_free;             // 0 x 0: nothing is left over
};

inline constexpr int64_t kTilingSteps = 4'000'000;

// The tiling that places most GPUs, and of those one that loses least. Shapes of a job have equally many
// GPUs and come best first; a job without shapes is never placed.
Tiling tile(int64_t rails, int64_t domains, std::span<const std::vector<RectangleShape>> jobs,
            int64_t steps_max = kTilingSteps);

// The most that any subset of `sizes` sums up to without exceeding `capacity`; where that takes more than
// some megabytes, the lesser of capacity and sum.
int64_t subset_sum(int64_t capacity, std::span<const int64_t> sizes);

}  // namespace tombolo::search
