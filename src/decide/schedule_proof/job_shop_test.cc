// Published job shops with known optima, and small ones against every order there is.
#include "decide/schedule_proof/job_shop.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <span>

#include "base/random.h"

namespace tombolo::schedule_proof::detail {
namespace {

// Jobs of n operations each, as published: machine, duration, machine, duration, ...
JobShop shop_of(int32_t jobs, std::span<const int> data) {
  JobShop shop;
  const size_t operations = data.size() / 2 / static_cast<size_t>(jobs);
  shop.machines.resize(operations);
  for (size_t i = 0; i < data.size() / 2; ++i) {
    const int32_t operation = shop.add(data[2 * i + 1]);
    shop.machines[static_cast<size_t>(data[2 * i])].push_back(operation);
    if (i % operations > 0) shop.precedences.push_back({operation - 1, operation});
  }
  return shop;
}

// Fisher and Thompson, "Probabilistic learning combinations of local job-shop scheduling rules",
// in Industrial Scheduling, 1963: six jobs on six machines; the optimum is 55.
TEST(JobShop, FisherThompson6) {
  constexpr int kData[] = {2, 1, 0, 3, 1, 6,  3, 7,  5, 3,  4, 6,  //
                           1, 8, 2, 5, 4, 10, 5, 10, 0, 10, 3, 4,  //
                           2, 5, 3, 4, 5, 8,  0, 9,  1, 1,  4, 7,  //
                           1, 5, 0, 5, 2, 5,  3, 3,  4, 8,  5, 9,  //
                           2, 9, 1, 3, 4, 5,  5, 4,  0, 3,  3, 1,  //
                           1, 3, 3, 3, 5, 9,  0, 10, 4, 4,  2, 1};
  const Timetable table = solve(shop_of(6, kData), 0, 1'000'000);
  EXPECT_TRUE(table.proven);
  EXPECT_EQ(table.makespan, 55);
}

// The same, ten jobs on ten machines; 930, which took the field 26 years to prove (Carlier and
// Pinson 1989).
TEST(JobShop, FisherThompson10) {
  constexpr int kData[] = {0, 29, 1, 78, 2, 9,  3, 36, 4, 49, 5, 11, 6, 62, 7, 56, 8, 44, 9, 21,  //
                           0, 43, 2, 90, 4, 75, 9, 11, 3, 69, 1, 28, 6, 46, 5, 46, 7, 72, 8, 30,  //
                           1, 91, 0, 85, 3, 39, 2, 74, 8, 90, 5, 10, 7, 12, 6, 89, 9, 45, 4, 33,  //
                           1, 81, 2, 95, 0, 71, 4, 99, 6, 9,  8, 52, 7, 85, 3, 98, 9, 22, 5, 43,  //
                           2, 14, 0, 6,  1, 22, 5, 61, 3, 26, 4, 69, 8, 21, 7, 49, 9, 72, 6, 53,  //
                           2, 84, 1, 2,  5, 52, 3, 95, 8, 48, 9, 72, 0, 47, 6, 65, 4, 6,  7, 25,  //
                           1, 46, 0, 37, 3, 61, 2, 13, 6, 32, 5, 21, 9, 32, 8, 89, 7, 30, 4, 55,  //
                           2, 31, 0, 86, 1, 46, 5, 74, 4, 32, 6, 88, 8, 19, 9, 48, 7, 36, 3, 79,  //
                           0, 76, 1, 69, 3, 76, 5, 51, 2, 85, 9, 11, 6, 40, 7, 89, 4, 26, 8, 74,  //
                           1, 85, 0, 13, 2, 61, 6, 7,  8, 64, 9, 76, 5, 47, 3, 52, 4, 90, 7, 45};
  const Timetable table = solve(shop_of(10, kData), 0, 1'000'000);
  EXPECT_TRUE(table.proven);
  EXPECT_EQ(table.makespan, 930);
}

// --- every order there is ------------------------------------------------------------------------

// The end of all operations for given orders of the machines; nothing where they wait in a circle.
int64_t makespan_of(const JobShop& shop, const std::vector<std::vector<int32_t>>& orders) {
  std::vector<JobShop::Precedence> all = shop.precedences;
  for (const auto& order : orders) {
    for (size_t i = 0; i + 1 < order.size(); ++i) all.push_back({order[i], order[i + 1]});
  }
  std::vector<int64_t> starts(shop.durations.size(), 0);
  int64_t end = 0;
  for (size_t round = 0; round <= starts.size(); ++round) {
    bool moved = false;
    for (const JobShop::Precedence& p : all) {
      const auto before = static_cast<size_t>(p.before);
      int64_t& start = starts[static_cast<size_t>(p.after)];
      const int64_t earliest = starts[before] + shop.durations[before] + p.lag;
      moved = moved || earliest > start;
      start = std::max(start, earliest);
    }
    if (!moved) {
      for (size_t i = 0; i < starts.size(); ++i) end = std::max(end, starts[i] + shop.durations[i]);
      return end;
    }
  }
  return INT64_MAX;
}

bool fits(const JobShop& shop, const std::vector<std::vector<int32_t>>& orders) {
  const auto first = [&](int32_t a, int32_t b) {
    for (const auto& order : orders) {
      const auto at = std::find(order.begin(), order.end(), a);
      const auto other = std::find(order.begin(), order.end(), b);
      if (at != order.end() && other != order.end()) return at < other;
    }
    return false;
  };
  for (const JobShop::Alike& a : shop.alike) {
    if (first(a[0], a[1]) != first(a[2], a[3])) return false;
  }
  for (const JobShop::Store& store : shop.stores) {
    for (const int32_t taker : store.take) {
      int64_t held = 0;
      for (const int32_t other : store.take) held += other == taker || first(other, taker) ? 1 : 0;
      for (const int32_t other : store.give) held -= first(other, taker) ? 1 : 0;
      if (held > store.places) return false;
    }
  }
  return true;
}

int64_t brute_force(const JobShop& shop) {
  int64_t best = INT64_MAX;
  std::vector<std::vector<int32_t>> orders = shop.machines;
  for (auto& order : orders) std::sort(order.begin(), order.end());
  const std::function<void(size_t)> permute = [&](size_t machine) {
    if (machine == orders.size()) {
      if (fits(shop, orders)) best = std::min(best, makespan_of(shop, orders));
      return;
    }
    do {
      permute(machine + 1);
    } while (std::next_permutation(orders[machine].begin(), orders[machine].end()));
  };
  permute(0);
  return best;
}

// Three machines of three or four operations; any precedences from low numbers to high ones; some
// of no duration; sometimes a store, and orders that must agree.
JobShop draw(Random& random) {
  JobShop shop;
  shop.machines.resize(3);
  for (auto& machine : shop.machines) {
    for (uint64_t left = 3 + random.below(2); left > 0; --left) {
      machine.push_back(shop.add(static_cast<int64_t>(random.below(7))));
    }
  }
  const auto operations = static_cast<int32_t>(shop.durations.size());
  // Machines one after the other would be dull: numbers are dealt out anew.
  std::vector<int32_t> order;
  for (int32_t i = 0; i < operations; ++i) order.push_back(i);
  for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random.below(i)]);
  for (size_t a = 0; a < order.size(); ++a) {
    for (size_t b = a + 1; b < order.size(); ++b) {
      if (random.below(6) > 0) continue;
      shop.precedences.push_back({order[a], order[b], static_cast<int64_t>(random.below(3))});
    }
  }
  const auto& some = shop.machines[0];
  if (random.below(2) == 0) {
    shop.stores.push_back({{some[0], some[1]}, {some[2]}, 1});
  }
  if (random.below(2) == 0) {
    const auto& others = shop.machines[1];
    shop.alike.push_back({some[0], some[1], others[0], others[1]});
  }
  return shop;
}

TEST(JobShopOracle, EqualsBruteForce) {
  Random random(1);
  int impossible = 0;
  for (int n = 0; n < 150; ++n) {
    const JobShop shop = draw(random);
    const int64_t best = brute_force(shop);
    const Timetable table = solve(shop, 0, 1'000'000);
    if (best == INT64_MAX) {
      ++impossible;
      EXPECT_TRUE(table.starts.empty()) << n;
      continue;
    }
    EXPECT_TRUE(table.proven) << n;
    EXPECT_EQ(table.makespan, best) << n;
    EXPECT_EQ(table.bound, best) << n;
    for (const JobShop::Precedence& p : shop.precedences) {
      const auto before = static_cast<size_t>(p.before);
      EXPECT_GE(table.starts[static_cast<size_t>(p.after)],
                table.starts[before] + shop.durations[before] + p.lag);
    }
  }
  EXPECT_GT(impossible, 2);
  EXPECT_LT(impossible, 75);
}

}  // namespace
}  // namespace tombolo::schedule_proof::detail
