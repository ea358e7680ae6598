#include "perform/train/threads.h"

#include <sched.h>

#include <algorithm>
#include <chrono>

#include "perform/train/blas_check.h"
#include "perform/train/torch_compat.h"

namespace tombolo::train {
namespace {

constexpr double kWorthIt = 1.25;      // times as fast, or the thread is not worth its core
constexpr double kLookSeconds = 0.03;  // each number of threads is looked at for as long, thrice

int64_t cores_allowed() {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  if (sched_getaffinity(0, sizeof cores, &cores) != 0) return 1;
  return std::max(1, CPU_COUNT(&cores));
}

// Shards of the ranks that the Plan puts on this rank's node share its cores.
int64_t shards_on_its_node(const plan::Plan& plan, int32_t rank) {
  const layout::Placement& own = plan.ranks[static_cast<size_t>(rank)];
  int64_t shards = 0;
  for (const layout::Placement& other : plan.ranks) {
    if (other.datacenter == own.datacenter && other.node == own.node) shards += other.shards;
  }
  return shards;
}

// Per product, the fastest of three looks: others may have been in the way.
double seconds_of_a_product(const plan::Plan& plan) {
  const at::NoGradGuard no_gradients;
  const int64_t rows = plan.training.micro_batch * plan.model.sequence;
  const auto type = plan.training.precision == plan::Precision::kBf16 ? at::kBFloat16 : at::kFloat;
  const at::Tensor input = at::ones({rows, plan.model.hidden}, type);
  const at::Tensor weight = at::ones({plan.model.hidden, plan.model.ffn}, type);
  at::mm(input, weight);  // threads are made, caches filled
  using Clock = std::chrono::steady_clock;
  double best = 1e9;
  for (int look = 0; look < 3; ++look) {
    const auto begin = Clock::now();
    int64_t products = 0;
    std::chrono::duration<double> passed{};
    for (; passed.count() < kLookSeconds; passed = Clock::now() - begin, ++products)
      at::mm(input, weight);
    best = std::min(best, passed.count() / static_cast<double>(products));
  }
  return best;
}

}  // namespace

// Matrix products alone get them: LibTorch's own threads, which are OpenMP's, spin while those of
// OpenBLAS compute, and both together took 2.2 times as long as one (docs/results/training.md).
void set_threads(int64_t threads, plan::Precision precision) {
  if (precision == plan::Precision::kBf16) {
    use_blas_threads(1);
    return compat::use_threads(static_cast<int>(threads));
  }
  const bool blas_has_them = use_blas_threads(static_cast<int>(threads));
  compat::use_threads(blas_has_them ? 1 : static_cast<int>(threads));
}

int64_t choose_threads(int64_t most, const std::function<double(int64_t threads)>& seconds) {
  int64_t best = 1;
  if (most <= 1) return best;
  double best_seconds = seconds(1);
  for (int64_t threads = 2; threads <= most;
       threads = threads == most ? most + 1 : std::min(2 * threads, most)) {
    const double these = seconds(threads);
    if (these * kWorthIt >= best_seconds) continue;
    best = threads;
    best_seconds = these;
  }
  return best;
}

int64_t use_threads(const plan::Plan& plan, int32_t rank) {
  int64_t threads = plan.run.threads.value_or(1);
  if (threads == 0) {
    const int64_t most = cores_allowed() / std::max<int64_t>(1, shards_on_its_node(plan, rank));
    threads = choose_threads(most, [&](int64_t tried) {
      set_threads(tried, plan.training.precision);
      return seconds_of_a_product(plan);
    });
  }
  set_threads(threads, plan.training.precision);
  return threads;
}

}  // namespace tombolo::train
