#include "predict/network/grid_collective.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <vector>

#include "base/random.h"

namespace tombolo::network {
namespace {

// x GPUs per domain, y domains, rates in bytes per second.
Grid grid(int64_t x, int64_t y, double scale_up, double port) {
  return {x, y, BytesPerSecond{scale_up}, BytesPerSecond{port}};
}

TEST(GridCollective, all_gather_by_hand) {
  // Two domains of 4, 8 GB: along the rails (2-1) * 8 / (4 * 2 * 50) = 0.02 s, inside the domains
  // (4-1) * 8 / (4 * 900) = 1/150 s.
  const Grid two{4, 2, 900_GBps, 50_GBps};
  EXPECT_DOUBLE_EQ(hierarchical_all_gather(two, 8_GB).value, 0.02 + 1.0 / 150);
  // Of one domain only the second phase is left, of domains of one GPU only the first.
  EXPECT_DOUBLE_EQ(hierarchical_all_gather({4, 1, 900_GBps, 50_GBps}, 8_GB).value, 1.0 / 150);
  EXPECT_DOUBLE_EQ(hierarchical_all_gather({1, 2, 900_GBps, 50_GBps}, 8_GB).value, 0.08);
  EXPECT_EQ(hierarchical_all_gather({1, 1, 900_GBps, 50_GBps}, 8_GB).value, 0);
}

TEST(GridCollective, most_of_the_all_reduce_of_gpt_1t_stays_in_the_domain) {
  // Section 3.2: of 64-fold data parallelism, 32 inside a GH200 and 2 across, "98 %" of the traffic
  // is in the domain. Eq. 1 moves D (y-1)/(x y) per GPU along the rails, D (x-1)/x inside:
  // (31/32) / (31/32 + 1/64) = 62/63 = 98.4 %. Unit rates turn times into bytes.
  const double rails = hierarchical_all_gather(grid(32, 2, 1e300, 1), 1_B).value;
  const double inside = hierarchical_all_gather(grid(32, 2, 1, 1e300), 1_B).value;
  EXPECT_NEAR(inside / (inside + rails), 62.0 / 63, 1e-12);
}

// Equations 8 and 9 taken literally: the maximum over all cuts of a grid, with a shard of one byte.
double all_cuts(Fabric fabric, const Grid& g) {
  const auto x = static_cast<unsigned>(g.domain);
  const auto y = static_cast<unsigned>(g.domains);
  const unsigned all = (1u << (x * y)) - 1;
  const auto border = [&](unsigned part) {
    double rate = (g.scale_up.value + g.port.value) * std::popcount(part);
    for (unsigned j = 0; j < y; ++j) {
      const unsigned row = ((1u << x) - 1) << (j * x);
      if ((part & row) == row) rate -= x * g.scale_up.value;
    }
    for (unsigned i = 0; i < x && fabric == Fabric::kRailOnly; ++i) {
      unsigned column = 0;
      for (unsigned j = 0; j < y; ++j) column |= 1u << (j * x + i);
      if ((part & column) == column) rate -= y * g.port.value;
    }
    return rate;
  };
  double worst = 0;
  for (unsigned part = 1; part < all; ++part) {
    const int larger = std::max(std::popcount(part), std::popcount(all & ~part));
    worst = std::max(worst, larger / std::min(border(part), border(all & ~part)));
  }
  return worst;
}

TEST(GridCollective, three_cuts_decide_among_all) {
  int grids = 0;
  for (int64_t x = 1; x <= 6; ++x) {
    for (int64_t y = 1; y <= 6; ++y) {
      if (x * y < 2 || x * y > 12) continue;
      // C_F / C_S from a fat network to a fat domain; 18 is the paper's GH200, 24 its DGX A100.
      for (const auto& [up, port] : std::vector<std::pair<double, double>>{
               {1, 8}, {1, 2}, {1, 1}, {3, 2}, {2, 1}, {4, 1}, {18, 1}, {24, 1}}) {
        const Grid g = grid(x, y, up, port);
        const Bytes gathered{g.gpus()};  // a shard of one byte each
        for (const Fabric fabric : {Fabric::kRailOptimized, Fabric::kRailOnly}) {
          const double brute = all_cuts(fabric, g);
          EXPECT_NEAR(all_gather_cut(fabric, g, gathered).value, brute, 1e-9 * brute)
              << to_name(fabric) << " " << x << " x " << y << ", " << up << " : " << port;
        }
        ++grids;
        if (y < 2) continue;
        // The paper's closed form (y-1)/C_S is the optimum exactly where domain_cut_binds(), given
        // C_F >= C_S, and then for both fabrics alike.
        const double papers = static_cast<double>(y - 1) / port;
        if (up >= port) {
          const double optimum = all_cuts(Fabric::kRailOnly, g);
          EXPECT_EQ(domain_cut_binds(g), optimum <= papers * (1 + 1e-12));
          EXPECT_NEAR(all_cuts(Fabric::kRailOptimized, g), optimum, 1e-9 * optimum);
        }
      }
    }
  }
  EXPECT_EQ(grids, 8 * 22);
}

TEST(GridCollective, without_a_domain_cut_one_gpu_binds) {
  // 8 x 2, C_F / C_S = 12 < y (x-1) / (y-1) = 14: (16-1) / (12+1) > (2-1) / 1.
  const Grid narrow = grid(8, 2, 12, 1);
  EXPECT_FALSE(domain_cut_binds(narrow));
  EXPECT_DOUBLE_EQ(all_gather_cut(Fabric::kRailOnly, narrow, 16_B).value, 15.0 / 13);
  const Grid wide = grid(8, 2, 14, 1);
  EXPECT_TRUE(domain_cut_binds(wide));
  EXPECT_DOUBLE_EQ(all_gather_cut(Fabric::kRailOnly, wide, 16_B).value, 1.0);
}

// All-to-all told byte by byte: every pair's shard takes its route, every GPU's four counters add
// up.
struct Loads {
  double scale_up = 0;  // of the busiest GPU, in or out
  double port = 0;
};
Loads routed(const Grid& g, bool rail_only) {
  const int64_t x = g.domain;
  const int64_t n = g.domain * g.domains;
  std::vector<double> up_out(n), up_in(n), port_out(n), port_in(n);
  for (int64_t from = 0; from < n; ++from) {
    for (int64_t to = 0; to < n; ++to) {
      if (from == to) continue;
      int64_t at = from;
      const bool other_domain = from / x != to / x;
      if (!other_domain || (rail_only && from % x != to % x)) {
        // Inside the own domain, to the destination or to the GPU on the destination's rail.
        at = from / x * x + to % x;
        ++up_out[from];
        ++up_in[at];
      }
      if (other_domain) {
        ++port_out[at];
        ++port_in[to];
      }
    }
  }
  const auto busiest = [](const std::vector<double>& a, const std::vector<double>& b) {
    return std::max(*std::max_element(a.begin(), a.end()), *std::max_element(b.begin(), b.end()));
  };
  return {busiest(up_out, up_in), busiest(port_out, port_in)};
}

TEST(GridCollective, all_to_all_equals_its_routes) {
  for (int64_t x = 1; x <= 6; ++x) {
    for (int64_t y = 1; y <= 6; ++y) {
      const Grid g = grid(x, y, 18, 1);
      const Bytes message{g.gpus()};  // a shard of one byte each
      const Loads direct = routed(g, false);
      const double full = std::max(direct.scale_up / 18, direct.port);
      EXPECT_DOUBLE_EQ(all_to_all_full_bisection(g, message).value, full);
      const Loads forwarded = routed(g, true);
      EXPECT_DOUBLE_EQ(all_to_all_rail_only(g, message).value,
                       forwarded.scale_up / 18 + forwarded.port);
      EXPECT_DOUBLE_EQ(all_to_all_rail_only_overlapped(g, message).value,
                       std::max(forwarded.scale_up / 18, forwarded.port));
    }
  }
}

TEST(GridCollective, the_slowdown_is_the_inverse_of_equation_22) {
  // GH200: x = 256, y = 16. y (x-1) / (x (y-1)) * 50 / 900 = 4080 / 3840 / 18 = 5.9 %, not 18-fold.
  const Grid gh200{256, 16, 900_GBps, 50_GBps};
  EXPECT_DOUBLE_EQ(all_to_all_slowdown(gh200), 4080.0 / 3840 / 18);
  const double full = all_to_all_full_bisection(gh200, 1_GB).value;
  const double rail = all_to_all_rail_only(gh200, 1_GB).value;
  EXPECT_NEAR(rail / full - 1, all_to_all_slowdown(gh200), 1e-12);
  EXPECT_EQ(all_to_all_slowdown({8, 1, 900_GBps, 50_GBps}), 0);
}

TEST(GridCollective, holds_what_must_hold_for_any_grid) {
  Random random(20260103);
  for (int i = 0; i < 20'000; ++i) {
    const Grid g = grid(1 + static_cast<int64_t>(random.below(300)),
                        1 + static_cast<int64_t>(random.below(300)), 1e9 + 1e12 * random.uniform(),
                        1e9 + 1e11 * random.uniform());
    SCOPED_TRACE(
        fmt::format("{} x {}, {} and {}", g.domain, g.domains, format(g.scale_up), format(g.port)));
    const double slack = 1 + 1e-12;
    const Bytes message = 1_GB;
    // No schedule beats the cut, and taking the rails away cannot help.
    const Seconds cut = all_gather_cut(Fabric::kRailOnly, g, message);
    EXPECT_GE(hierarchical_all_gather(g, message) * slack, cut);
    EXPECT_GE(cut * slack, all_gather_cut(Fabric::kRailOptimized, g, message));
    const Seconds full = all_to_all_full_bisection(g, message);
    EXPECT_GE(all_to_all_rail_only(g, message) * slack,
              all_to_all_rail_only_overlapped(g, message));
    EXPECT_GE(all_to_all_rail_only_overlapped(g, message) * slack, full);
    // Twice the bytes take twice the time; so do half the rates.
    Grid slower = g;
    slower.scale_up = g.scale_up / 2;
    slower.port = g.port / 2;
    for (const CollectiveLaw& law : collective_laws()) {
      const double once = law.time(g, message).value;
      EXPECT_NEAR(law.time(g, 2 * message).value, 2 * once, 1e-12 * once) << law.name;
      EXPECT_NEAR(law.time(slower, message).value, 2 * once, 1e-12 * once) << law.name;
    }
  }
}

TEST(GridCollective, refuses_rates_that_are_none) {
  EXPECT_TRUE(check(Grid{}));
  EXPECT_FALSE(check(grid(8, 2, 0, 1)));
  EXPECT_FALSE(check(grid(8, 2, 1, -1)));
  EXPECT_FALSE(check(grid(0, 2, 1, 1)));
}

}  // namespace
}  // namespace tombolo::network
