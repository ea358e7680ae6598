#include "predict/network/failure.h"

#include <gtest/gtest.h>

#include <functional>
#include <set>

namespace tombolo::network {
namespace {

Grid whole_domains(const FabricSize& size) {
  return {size.domain, size.gpus / size.domain, 900_GBps, 50_GBps};
}

std::vector<FailureCase> cases_of(const FabricSize& size, const FailureOptions& options = {}) {
  return failure_cases(size, whole_domains(size), options);
}

FailureCase find(const std::vector<FailureCase>& rows, FailedPart failed, Fabric fabric,
                 std::string_view remedy) {
  for (const FailureCase& row : rows) {
    if (row.failed == failed && row.fabric == fabric && row.remedy.find(remedy) == 0) return row;
  }
  ADD_FAILURE() << "no row " << to_name(failed) << " " << to_name(fabric) << " " << remedy;
  return {};
}

TEST(FabricFailure, one_switch_carries_half_or_all_of_its_ports_down) {
  // 32,768 GPUs, radix 128, domain 256. Rail-optimised: 3 tiers, 64 ports down, one rail of 64
  // domains. Rail-only: a rail of 128 is one switch.
  const FabricSize size{32768, 128, 256};
  EXPECT_EQ(rail_switch(Fabric::kRailOptimized, size).gpus(), 64);
  EXPECT_EQ(rail_switch(Fabric::kRailOnly, size).gpus(), 128);
  // Radix 256: two rails of 128 share a switch.
  const RailSwitch shared = rail_switch(Fabric::kRailOnly, {32768, 256, 256});
  EXPECT_EQ(shared.rails, 2);
  EXPECT_EQ(shared.domains, 128);
  // 64 GPUs on a switch of 64: one for all, whatever the fabric.
  EXPECT_EQ(rail_switch(Fabric::kRailOptimized, {64, 64, 8}).gpus(), 64);
  EXPECT_EQ(rail_switch(Fabric::kRailOnly, {64, 64, 8}).gpus(), 64);
}

// Pairs counted one by one on a small cluster: `lost` tells which GPUs have no port.
struct Counted {
  int64_t off_network = 0;
  int64_t cut_off = 0;
};
Counted count(Fabric fabric, const Grid& grid, const RailSwitch& lost) {
  const int64_t x = grid.domain;
  const auto has_port = [&](int64_t gpu) {
    return !(gpu % x < lost.rails && gpu / x < lost.domains);
  };
  const auto linked = [&](int64_t a, int64_t b) {  // over switches alone
    return has_port(a) && has_port(b) && (fabric != Fabric::kRailOnly || a % x == b % x);
  };
  Counted out;
  const int64_t n = grid.domain * grid.domains;
  std::vector<int64_t> island(n);  // connected components over domains and switches
  std::function<void(int64_t, int64_t)> paint = [&](int64_t gpu, int64_t colour) {
    island[gpu] = colour;
    for (int64_t other = 0; other < n; ++other) {
      if (island[other] == 0 && (gpu / x == other / x || linked(gpu, other))) paint(other, colour);
    }
  };
  for (int64_t gpu = 0; gpu < n; ++gpu) {
    if (island[gpu] == 0) paint(gpu, gpu + 1);
  }
  for (int64_t a = 0; a < n; ++a) {
    for (int64_t b = a + 1; b < n; ++b) {
      if (a / x == b / x) continue;
      const bool before = fabric != Fabric::kRailOnly || a % x == b % x;
      out.off_network += before && !linked(a, b);
      out.cut_off += island[a] != island[b];
    }
  }
  return out;
}

TEST(FabricFailure, counts_pairs_as_one_by_one) {
  // Radix 4 and 8 on clusters of 2 to 5 domains of 2 to 4 GPUs: shared, split and single switches.
  for (const int64_t radix : {4, 8, 32}) {
    for (int64_t x = 2; x <= 4; ++x) {
      for (int64_t y = 2; y <= 5; ++y) {
        const FabricSize size{x * y, radix, x};
        const std::vector<FailureCase> rows = cases_of(size);
        for (const FailureCase& row : rows) {
          SCOPED_TRACE(fmt::format("radix {}, {} x {}, {} {}", radix, x, y, to_name(row.failed),
                                   to_name(row.fabric)));
          RailSwitch lost{0, 0};
          if (row.failed == FailedPart::kLink) lost = {1, 1};
          if (row.failed == FailedPart::kRailSwitch) lost = rail_switch(row.fabric, size);
          const Counted counted = count(row.fabric, whole_domains(size), lost);
          EXPECT_EQ(row.pairs_off_network, counted.off_network);
          EXPECT_EQ(row.pairs_cut_off, counted.cut_off);
        }
      }
    }
  }
}

TEST(FabricFailure, forwarding_through_the_domain_by_hand) {
  // 16 domains of 8, C_F = 900, C_S = 50 GB/s; one link fails: 7 ports carry the bytes of 8.
  // With D = 128 (shards of 1): along the rails 15/50 = 0.3, inside 7 * 16/900 = 0.12444;
  // after: 0.3 * 8/7 + 15/900 + 0.12444.
  const FailureCase row =
      find(cases_of({128, 64, 8}), FailedPart::kLink, Fabric::kRailOnly, "forward through");
  const double inside = 7.0 * 16 / 900;
  EXPECT_NEAR(*row.all_gather, (0.3 * 8 / 7 + 15.0 / 900 + inside) / (0.3 + inside), 1e-12);
  // All-to-all: 16 * 7/900 + 8 * 15/50 before; the second term grows by 8/7, and 8 * 15 shards are
  // handed over.
  EXPECT_NEAR(*row.all_to_all, (inside + 2.4 * 8 / 7 + 120.0 / 900) / (inside + 2.4), 1e-12);
  EXPECT_EQ(row.claim, Claim::kDerived);
  EXPECT_EQ(row.gpus_out, 0);
}

TEST(FabricFailure, a_spare_on_another_rail_costs_one_more_hop) {
  // 16 domains of 8, 7 used: shards of 1, along the rails 15/50, inside 6 * 16/900, the hop 15/900.
  const FailureCase row =
      find(cases_of({128, 64, 8}), FailedPart::kGpu, Fabric::kRailOnly, "reach the spare");
  const double before = 15.0 / 50 + 6.0 * 16 / 900;
  EXPECT_NEAR(*row.all_gather, (before + 15.0 / 900) / before, 1e-12);
  // All-to-all: 16 * 6/900 + 7 * 15/50; a relay carries 7 shards.
  const double exchange = 16.0 * 6 / 900 + 2.1;
  EXPECT_NEAR(*row.all_to_all, (exchange + 7.0 / 900) / exchange, 1e-12);
}

TEST(FabricFailure, a_stretched_domain_slows_to_network_speed) {
  // "creating a bottleneck that slows the HB domain into a network domain": 7 * 16/50 inside.
  const FailureCase row =
      find(cases_of({128, 64, 8}), FailedPart::kGpu, Fabric::kRailOptimized, "move the task");
  EXPECT_NEAR(*row.all_gather, (0.3 + 7.0 * 16 / 50) / (0.3 + 7.0 * 16 / 900), 1e-12);
  // All 127 other GPUs are across the network: 127/50 instead of 120/50.
  EXPECT_NEAR(*row.all_to_all, 127.0 / 120, 1e-12);
}

TEST(FabricFailure, says_what_the_paper_says) {
  // DGX: a server is a domain; it is replaced whole, and both fabrics do alike.
  const std::vector<FailureCase> dgx = cases_of({1024, 64, 8});
  const FailureCase server = find(dgx, FailedPart::kServer, Fabric::kRailOnly, "move the task");
  EXPECT_EQ(server.gpus_out, 8);
  EXPECT_EQ(server.claim, Claim::kPaper);
  EXPECT_EQ(*server.all_gather, 1);
  // GH200: a server is a GPU; the same rows as for a GPU.
  const std::vector<FailureCase> gh200 = cases_of({4096, 64, 256});
  const auto rows_of = [&](FailedPart part) {
    return std::count_if(gh200.begin(), gh200.end(),
                         [&](const FailureCase& row) { return row.failed == part; });
  };
  EXPECT_EQ(rows_of(FailedPart::kGpu), rows_of(FailedPart::kServer));
  // "GPUs connected to the failed switch or link will become unavailable for either network".
  for (const Fabric fabric : {Fabric::kRailOptimized, Fabric::kRailOnly}) {
    const FailureCase link = find(dgx, FailedPart::kLink, fabric, "continue without");
    EXPECT_EQ(link.gpus_out, 1);
    EXPECT_FALSE(link.all_gather.has_value());
  }
  // An optical switch inside the domain keeps it whole at the price of a small set.
  const FailureCase set = find(gh200, FailedPart::kGpu, Fabric::kRailOnly, "exchange a small set");
  EXPECT_TRUE(set.optical);
  EXPECT_EQ(set.gpus_moved, 8);
}

TEST(FabricFailure, nothing_gets_faster_and_counts_stay_in_range) {
  for (const int64_t radix : {4, 64, 256}) {
    for (const int64_t domain : {1, 2, 8, 72, 256}) {
      for (const int64_t domains : {1, 2, 33, 4096}) {
        const FabricSize size{domain * domains, radix, domain};
        for (const FailureCase& row : cases_of(size)) {
          SCOPED_TRACE(fmt::format("radix {}, {} x {}: {}, {}: {}", radix, domain, domains,
                                   to_name(row.failed), to_name(row.fabric), row.remedy));
          EXPECT_GE(row.all_gather.value_or(1), 1 - 1e-12);
          EXPECT_GE(row.all_to_all.value_or(1), 1 - 1e-12);
          EXPECT_GT(row.bandwidth_lost, 0);
          EXPECT_LE(row.bandwidth_lost, 1);
          EXPECT_GE(row.gpus_out, 0);
          EXPECT_LE(row.gpus_out, size.gpus);
          EXPECT_GE(row.pairs_off_network, 0);
          EXPECT_LE(row.pairs_off_network, size.gpus * (size.gpus - 1) / 2);
          EXPECT_GE(row.pairs_cut_off, 0);
        }
      }
    }
  }
}

TEST(FabricFailure, refuses_half_servers) {
  EXPECT_FALSE(check(FabricSize{72, 64, 72}, FailureOptions{5, 8}));
  EXPECT_TRUE(check(FabricSize{72, 64, 72}, FailureOptions{4, 8}));
  EXPECT_FALSE(check(FabricSize{72, 64, 72}, FailureOptions{4, 0}));
}

}  // namespace
}  // namespace tombolo::network
