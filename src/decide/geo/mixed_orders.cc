#include <algorithm>
#include <cstddef>

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

std::vector<size_t> nearest_neighbours(const std::vector<size_t>& datacenters, size_t start,
                                       const std::vector<std::vector<double>>& transfer) {
  std::vector<size_t> left = datacenters, order{start};
  std::erase(left, start);
  while (!left.empty()) {
    const auto next = std::min_element(left.begin(), left.end(), [&](size_t a, size_t b) {
      return transfer[order.back()][a] < transfer[order.back()][b];
    });
    order.push_back(*next);
    left.erase(next);
  }
  // 2-opt: reverse a part while that shortens the way.
  for (bool shorter = true; shorter;) {
    shorter = false;
    for (size_t i = 0; i < order.size(); ++i) {
      for (size_t j = i + 2; j <= order.size(); ++j) {
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
                                           const std::vector<std::vector<double>>& transfer) {
  for (const size_t datacenter : datacenters) {
    CHECK(datacenter < transfer.size() && transfer[datacenter].size() == transfer.size(),
          "no way from datacenter {} to all {}", datacenter, transfer.size());
  }
  std::vector<std::vector<size_t>> orders;
  const auto keep = [&](const std::vector<size_t>& order) {
    if (length(order, transfer) < kInfinity) orders.push_back(order);
  };
  if (datacenters.size() <= kAllOrders) {
    std::vector<size_t> order = datacenters;
    std::sort(order.begin(), order.end());
    do keep(order);
    while (std::next_permutation(order.begin(), order.end()));
  } else {
    // Both directions: the last stages hold fewer microbatches, the ends hold embedding and head.
    for (const size_t start : datacenters) {
      std::vector<size_t> order = nearest_neighbours(datacenters, start, transfer);
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
