#include <algorithm>
#include <cstddef>
#include <optional>

#include "base/check.h"
#include "decide/geo/mixed_bound.h"
#include "decide/geo/mixed_setting.h"

namespace tombolo::geo {
namespace {

constexpr size_t kAllOrders = 6;

double length(const std::vector<size_t>& order, const std::vector<std::vector<double>>& transfer) {
  double sum = 0;
  for (size_t i = 0; i + 1 < order.size(); ++i) sum += transfer[order[i]][order[i + 1]];
  return sum;
}

// From `start`, to `goal` if there is one.
std::vector<size_t> nearest_neighbours(const std::vector<size_t>& datacenters, size_t start,
                                       std::optional<size_t> goal,
                                       const std::vector<std::vector<double>>& transfer) {
  std::vector<size_t> left = datacenters, order{start};
  std::erase(left, start);
  if (goal) std::erase(left, *goal);
  while (!left.empty()) {
    const auto next = std::min_element(left.begin(), left.end(), [&](size_t a, size_t b) {
      return transfer[order.back()][a] < transfer[order.back()][b];
    });
    order.push_back(*next);
    left.erase(next);
  }
  if (goal) order.push_back(*goal);
  // 2-opt: reverse a part while that shortens the way. With a goal both ends stay.
  const size_t kept = goal ? 1 : 0;
  for (bool shorter = true; shorter;) {
    shorter = false;
    for (size_t i = kept; i < order.size(); ++i) {
      for (size_t j = i + 2; j + kept <= order.size(); ++j) {
        std::vector<size_t> other = order;
        std::reverse(other.begin() + static_cast<std::ptrdiff_t>(i),
                     other.begin() + static_cast<std::ptrdiff_t>(j));
        if (!(length(other, transfer) < length(order, transfer) * (1 - kRounding))) continue;
        order = std::move(other);
        shorter = true;
      }
    }
  }
  return order;
}

}  // namespace

std::vector<std::vector<size_t>> orders_of(const std::vector<size_t>& datacenters,
                                           const std::vector<std::vector<double>>& transfer,
                                           const std::vector<bool>& may_be_first,
                                           const std::vector<bool>& may_be_last) {
  for (const size_t datacenter : datacenters) {
    CHECK(datacenter < transfer.size() && transfer[datacenter].size() == transfer.size(),
          "no way from datacenter {} to all {}", datacenter, transfer.size());
  }
  std::vector<std::vector<size_t>> orders;
  const auto starts = [&](size_t z) { return may_be_first.empty() || may_be_first[z]; };
  const auto ends = [&](size_t z) { return may_be_last.empty() || may_be_last[z]; };
  const auto keep = [&](const std::vector<size_t>& order) {
    if (!starts(order.front()) || !ends(order.back())) return;
    if (length(order, transfer) < kInfinity) orders.push_back(order);
  };
  if (datacenters.size() <= kAllOrders) {
    std::vector<size_t> order = datacenters;
    std::sort(order.begin(), order.end());
    do keep(order);
    while (std::next_permutation(order.begin(), order.end()));
  } else {
    // Both directions: the last stages hold fewer microbatches, the ends hold embedding and head.
    const bool free = std::all_of(datacenters.begin(), datacenters.end(),
                                  [&](size_t z) { return starts(z) && ends(z); });
    for (const size_t start : datacenters) {
      if (!free) {
        for (const size_t goal : datacenters) {
          if (goal != start && starts(start) && ends(goal))
            keep(nearest_neighbours(datacenters, start, goal, transfer));
        }
        continue;
      }
      std::vector<size_t> order = nearest_neighbours(datacenters, start, std::nullopt, transfer);
      keep(order);
      std::reverse(order.begin(), order.end());
      keep(order);
    }
    std::sort(orders.begin(), orders.end());
    orders.erase(std::unique(orders.begin(), orders.end()), orders.end());
  }
  // Short ways first; among equals in the order of numbers.
  std::stable_sort(orders.begin(), orders.end(), [&](const auto& a, const auto& b) {
    return length(a, transfer) < length(b, transfer);
  });
  return orders;
}

}  // namespace tombolo::geo
