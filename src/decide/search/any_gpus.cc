#include "decide/search/any_gpus.h"

#include <algorithm>
#include <numeric>

#include "decide/search/tiling.h"

namespace tombolo::search {
namespace {

constexpr int64_t kSubsets = 20'000;  // of jobs that are tried

class PieceBoard {
 public:
  PieceBoard(int64_t domain, int64_t domains)
      : free_(static_cast<size_t>(domains), domain), domain_(domain) {}

  // What the job has of a domain, as its greatest common divisor; or nothing, and nothing is taken.
  std::optional<int64_t> take(const PieceJob& job) {
    std::vector<int64_t> before = free_;
    int64_t left = job.gpus, common = 0;
    const auto take_from = [&](int64_t& free, int64_t count) {
      free -= count;
      left -= count;
      common = std::gcd(common, count);
    };
    if (domain_ % job.piece == 0) {
      for (int64_t& free : free_) {
        if (left >= domain_ && free == domain_) take_from(free, domain_);
      }
    }
    while (left > 0) {
      // The fullest domain that holds all that is left; else the one that holds most.
      int64_t* best = nullptr;
      for (int64_t& free : free_) {
        if (free < job.piece) continue;
        const bool holds = free >= left, best_holds = best && *best >= left;
        if (!best || (holds && (!best_holds || free < *best)) ||
            (!holds && !best_holds && free > *best)) {
          best = &free;
        }
      }
      if (!best) {
        free_ = std::move(before);
        return std::nullopt;
      }
      take_from(*best, std::min(left, *best / job.piece * job.piece));
    }
    return common;
  }

 private:
  std::vector<int64_t> free_;
  int64_t domain_;
};

}  // namespace

AnyGpus place_anywhere(int64_t domain, int64_t domains, std::span<const PieceJob> jobs) {
  AnyGpus best;
  best.of_domain.resize(jobs.size());
  std::vector<int64_t> sizes;
  for (const PieceJob& job : jobs) sizes.push_back(job.gpus);
  best.gpus_at_most = jobs.empty() ? 0 : subset_sum(domain * domains, sizes);
  std::vector<size_t> order(jobs.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, std::greater<>(),
                           [&](size_t job) { return std::pair(jobs[job].piece, jobs[job].gpus); });

  std::vector<std::optional<int64_t>> now(jobs.size());
  int64_t subsets = 0;
  // Jobs of `order` from `at` on are in or out; `left` is what they have together.
  const auto choose = [&](auto& self, size_t at, const PieceBoard& before, int64_t gpus,
                          int64_t left) -> void {
    if (gpus > best.gpus) {
      best.gpus = gpus;
      best.of_domain = now;
    }
    if (at == order.size() || std::min(gpus + left, best.gpus_at_most) <= best.gpus ||
        ++subsets > kSubsets) {
      return;
    }
    const size_t job = order[at];
    PieceBoard with = before;
    now[job] = with.take(jobs[job]);
    if (now[job]) self(self, at + 1, with, gpus + jobs[job].gpus, left - jobs[job].gpus);
    now[job].reset();
    self(self, at + 1, before, gpus, left - jobs[job].gpus);
  };
  choose(choose, 0, PieceBoard(domain, domains), 0,
         std::accumulate(sizes.begin(), sizes.end(), int64_t{0}));
  best.proven = best.gpus == best.gpus_at_most;
  return best;
}

}  // namespace tombolo::search
