#include "perform/train/balanced_owners.h"

#include <algorithm>
#include <numeric>

#include "base/check.h"

namespace tombolo::train {

std::vector<int32_t> balanced_owners(std::span<const int64_t> sizes, std::vector<int64_t>& loads) {
  CHECK(!loads.empty(), "no owner for {} parameters", sizes.size());
  std::vector<size_t> order(sizes.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return sizes[a] > sizes[b]; });
  std::vector<int32_t> owners(sizes.size());
  for (const size_t i : order) {
    const auto least = std::min_element(loads.begin(), loads.end());
    *least += sizes[i];
    owners[i] = static_cast<int32_t>(least - loads.begin());
  }
  return owners;
}

}  // namespace tombolo::train
