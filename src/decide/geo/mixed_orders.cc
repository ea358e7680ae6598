#include <algorithm>
#include <cstddef>
#include <optional>

#include "base/check.h"
#include "decide/geo/mixed_bound.h"
#include "decide/geo/mixed_setting.h"

namespace tombolo::geo {
namespace {

constexpr size_t kAllOrders = 6;
constexpr int kAnyOrderSteps = 100'000;  // of a search for any order along links

double length(const std::vector<size_t>& order, const std::vector<std::vector<double>>& transfer) {
  double sum = 0;
  for (size_t i = 0; i + 1 < order.size(); ++i) sum += transfer[order[i]][order[i + 1]];
  return sum;
}

// How many neighbours no link joins, and the length of the other steps: fewer gaps are shorter.
std::pair<size_t, double> gaps_and_length(const std::vector<size_t>& order,
                                          const std::vector<std::vector<double>>& transfer) {
  size_t gaps = 0;
  double sum = 0;
  for (size_t i = 0; i + 1 < order.size(); ++i) {
    const double step = transfer[order[i]][order[i + 1]];
    if (step < kInfinity) {
      sum += step;
    } else {
      ++gaps;
    }
  }
  return {gaps, sum};
}

bool is_shorter(const std::pair<size_t, double>& a, const std::pair<size_t, double>& b) {
  return a.first != b.first ? a.first < b.first : a.second < b.second * (1 - kRounding);
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
        if (!is_shorter(gaps_and_length(other, transfer), gaps_and_length(order, transfer)))
          continue;
        order = std::move(other);
        shorter = true;
      }
    }
  }
  return order;
}

// Any order along links that begins and ends where it may, near neighbours first; empty: none was found.
class AnyOrder {
 public:
  AnyOrder(const std::vector<size_t>& datacenters, const std::vector<std::vector<double>>& transfer,
           const std::vector<bool>& may_be_first, const std::vector<bool>& may_be_last)
      : left_(datacenters), transfer_(transfer), first_(may_be_first), last_(may_be_last) {}

  std::vector<size_t> find() {
    if (!extend()) order_.clear();
    return order_;
  }

 private:
  bool extend() {
    if (left_.empty()) return last_[order_.back()];
    if (++steps_ > kAnyOrderSteps) return false;
    std::vector<size_t> next;
    for (const size_t z : left_) {
      const bool may_follow = order_.empty() ? first_[z] : transfer_[order_.back()][z] < kInfinity;
      if (may_follow) next.push_back(z);
    }
    if (!order_.empty()) {
      std::sort(next.begin(), next.end(), [&](size_t a, size_t b) {
        return transfer_[order_.back()][a] < transfer_[order_.back()][b];
      });
    }
    for (const size_t z : next) {
      order_.push_back(z);
      std::erase(left_, z);
      if (extend()) return true;
      left_.push_back(z);
      order_.pop_back();
    }
    return false;
  }

  std::vector<size_t> left_, order_;
  const std::vector<std::vector<double>>& transfer_;
  const std::vector<bool>&first_, &last_;
  int steps_ = 0;
};

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
  const auto keep = [&](const std::vector<size_t>& order) {
    if (!may_be_first[order.front()] || !may_be_last[order.back()]) return;
    if (length(order, transfer) < kInfinity) orders.push_back(order);
  };
  if (datacenters.size() <= kAllOrders) {
    std::vector<size_t> order = datacenters;
    std::sort(order.begin(), order.end());
    do keep(order);
    while (std::next_permutation(order.begin(), order.end()));
  } else {
    // Both directions: the last stages hold fewer microbatches, the ends hold embedding and head.
    const bool any_ends = std::all_of(datacenters.begin(), datacenters.end(),
                                      [&](size_t z) { return may_be_first[z] && may_be_last[z]; });
    for (const size_t start : datacenters) {
      if (any_ends) {
        std::vector<size_t> order = nearest_neighbours(datacenters, start, std::nullopt, transfer);
        keep(order);
        std::reverse(order.begin(), order.end());
        keep(order);
        continue;
      }
      for (const size_t goal : datacenters) {
        if (goal != start && may_be_first[start] && may_be_last[goal])
          keep(nearest_neighbours(datacenters, start, goal, transfer));
      }
    }
    if (orders.empty()) {
      const std::vector<size_t> any =
          AnyOrder(datacenters, transfer, may_be_first, may_be_last).find();
      if (!any.empty()) orders.push_back(any);
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
