// Which share of its gradients a datacenter sends, and from which iteration on: ordered by the launcher during the run
// (steer/tune/rate_controller.h).
//
// An update contains the number of its blocks or numbers, and all ranks merge the updates that were sent. So replicas
// have equal bits whatever the density of each update is, even if two leaders receive an order at different times.
#pragma once

#include <algorithm>
#include <map>
#include <mutex>
#include <optional>

#include "base/check.h"

namespace tombolo::exchange {

class DensitySchedule {
 public:
  // From any thread. An order for iterations that have begun holds for those that have not.
  void order(int64_t first_iteration, double density) {
    CHECK(density > 0 && density <= 1, "a density of {}", density);
    const std::lock_guard lock(mutex_);
    from_.erase(from_.lower_bound(first_iteration), from_.end());
    from_[first_iteration] = density;
    // A decision waits for reports of the iterations before, so no rank is kOrdersKept orders behind.
    while (from_.size() > kOrdersKept) from_.erase(from_.begin());
  }
  // Nothing before the first order.
  std::optional<double> at(int64_t iteration) const {
    const std::lock_guard lock(mutex_);
    const auto after = from_.upper_bound(iteration);
    if (after == from_.begin()) return std::nullopt;
    return std::prev(after)->second;
  }

 private:
  static constexpr size_t kOrdersKept = 16;

  mutable std::mutex mutex_;
  std::map<int64_t, double> from_;  // by first iteration
};

}  // namespace tombolo::exchange
