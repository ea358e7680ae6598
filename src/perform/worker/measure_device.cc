#include "perform/worker/measure_device.h"

#include <time.h>

#include <algorithm>

#include "base/cpu_limit.h"

#ifdef TOMBOLO_TORCH
#include "perform/train/measure_overlap.h"
#include "perform/train/measure_rates.h"
#include "perform/worker/make_kernels.h"
#endif

namespace tombolo::worker {

#ifdef TOMBOLO_TORCH
namespace {

Seconds time_of(clockid_t clock) {
  timespec t{};
  clock_gettime(clock, &t);
  return Seconds{static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec)};
}

}  // namespace

Result<plan::DeviceRates> measure_device(int64_t threads, const std::vector<int64_t>& hidden,
                                         Seconds budget) {
  const train::RatesOptions options{.threads = threads, .budget = budget, .hidden = hidden};
  if (threads > 1) return train::measure_rates(options, [] { return time_of(CLOCK_MONOTONIC); });
  // A group that may use a third of a core has a second of it in three.
  const double cores = std::min(cpu_limit(), 1.0);
  return train::measure_rates(options,
                              [cores] { return time_of(CLOCK_PROCESS_CPUTIME_ID) / cores; });
}

// The rank itself says what cannot be performed, and sets threads and memory as where it trains.
Result<plan::OverlapSamples> measure_operators(const plan::Plan& plan, Seconds budget,
                                               Clock& clock) {
  { const auto rank = TRY(make_kernels(plan, 0, clock)); }
  return train::measure_overlap(plan, budget);
}
#else
namespace {

Error no_libtorch() {
  return {ErrorCode::kUnusable,
          "this worker was built without LibTorch, which computes on device = \"cpu\"",
          {},
          "building it with: cmake --preset torch && cmake --build --preset torch"};
}

}  // namespace

Result<plan::DeviceRates> measure_device(int64_t, const std::vector<int64_t>&, Seconds) {
  return fail(no_libtorch());
}

Result<plan::OverlapSamples> measure_operators(const plan::Plan&, Seconds, Clock&) {
  return fail(no_libtorch());
}
#endif

}  // namespace tombolo::worker
