#include "predict/network/fabric.h"

#include <gtest/gtest.h>

#include "base/random.h"

namespace tombolo::network {
namespace {

FabricParts clos(const FabricSize& size) { return parts_of(Fabric::kClos, size); }
FabricParts rail_only(const FabricSize& size) { return parts_of(Fabric::kRailOnly, size); }

TEST(FabricCost, equals_table_two) {
  const std::vector<PublishedNumber> numbers = table_two();
  ASSERT_EQ(numbers.size(), 30u);  // 24 counts and 6 reductions
  for (const PublishedNumber& number : numbers) {
    EXPECT_EQ(number.ours, number.published) << number.name << " " << number.unit;
  }
}

TEST(FabricCost, tiers_by_hand) {
  EXPECT_EQ(tiers(1, 64), 1);
  EXPECT_EQ(tiers(64, 64), 1);  // one switch
  EXPECT_EQ(tiers(65, 64), 2);
  EXPECT_EQ(tiers(2048, 64), 2);  // 2 * 32^2
  EXPECT_EQ(tiers(2049, 64), 3);
  EXPECT_EQ(tiers(65536, 64), 3);          // 2 * 32^3
  EXPECT_EQ(tiers(100'000'000, 4), 26);    // 2 * 2^26 = 134,217,728
  EXPECT_EQ(tiers(1'000'000'000, 4), 29);  // 2 * 2^29 = 1,073,741,824
}

TEST(FabricCost, dollars_by_hand) {
  // 32,768 GPUs, radix 128, domain 256: rails of 128 ports fit on one switch each.
  // 256 switches * 128 ports * 748 $ + 65,536 transceivers * 374 $ = 24,510,464 + 24,510,464.
  const FabricParts rail = rail_only({32768, 128, 256});
  EXPECT_EQ(rail.tiers, 1);
  EXPECT_EQ(rail.cost.value, 49'020'928.0);
  // Clos: 1,280 * 128 * 748 + 196,608 * 374 = 122,552,320 + 73,531,392.
  const FabricParts full = clos({32768, 128, 256});
  EXPECT_EQ(full.cost.value, 196'083'712.0);
  EXPECT_EQ(cost_reduction(full, rail), 0.75);
  EXPECT_EQ(percent_cut_off(full, rail), 75);
}

TEST(FabricCost, percentages_are_cut_off) {
  // 1 - (1536 * 64 * 748 + 131,072 * 374) / (2560 * 64 * 748 + 196,608 * 374) = 0.375.
  const FabricParts full = clos({32768, 64, 256});
  const FabricParts rail = rail_only({32768, 64, 256});
  EXPECT_EQ(cost_reduction(full, rail), 0.375);
  EXPECT_EQ(percent_cut_off(full, rail), 37);
}

TEST(FabricCost, small_rails_share_switches) {
  // Four rails of 16 on a switch of 64: 8 rails need 2 switches, 128 / 64.
  const FabricParts shared = rail_only({128, 64, 8});
  EXPECT_EQ(shared.switches, 2);
  EXPECT_EQ(shared.switches_whole_rails, 2);
  // Rails of 96 on switches of 128: the ports of 192 switches suffice (24,576 / 128), but a rail on
  // two of them would fall apart; whole, each of the 256 rails takes a switch.
  const FabricParts odd = rail_only({24576, 128, 256});
  EXPECT_EQ(odd.switches, 192);
  EXPECT_EQ(odd.switches_whole_rails, 256);
}

TEST(FabricCost, switches_are_bought_whole) {
  // 100 ports, radix 64: two tiers, 3 * 100 / 64 = 4.7 switches.
  EXPECT_EQ(clos({100, 64, 8}).switches, 5);
  EXPECT_EQ(clos({1, 64, 8}).switches, 1);
}

TEST(FabricCost, a_partial_domain_lengthens_some_rails) {
  // 513 GPUs in domains of 8 are 65 domains, the last with one GPU: rail 0 has 65 ports and does
  // not fit on one switch of 64.
  const FabricSize size{513, 64, 8};
  EXPECT_EQ(size.domains(), 65);
  EXPECT_EQ(rail_only(size).tiers, 2);
  EXPECT_EQ(rail_only({512, 64, 8}).tiers, 1);
}

TEST(FabricCost, a_domain_of_one_gpu_makes_rail_only_a_clos) {
  for (const int64_t gpus : {1, 64, 1000, 32768, 100'000'000}) {
    EXPECT_EQ(rail_only({gpus, 64, 1}), clos({gpus, 64, 1})) << gpus;
  }
}

TEST(FabricCost, the_largest_cluster_does_not_overflow) {
  // Radix 4: 26 tiers; 51 * 10^8 / 4 switches, 52 * 10^8 transceivers.
  const FabricParts parts = clos({100'000'000, 4, 1});
  EXPECT_EQ(parts.switches, 1'275'000'000);
  EXPECT_EQ(parts.transceivers, 5'200'000'000);
  EXPECT_GT(clos({kGpusMax, 4, 1}).switches, 0);
}

// Random sizes: 1 to 10^8 GPUs, radix 4 to 1,024, domains of 1 to 1,024.
FabricSize random_size(Random& random) {
  FabricSize size;
  size.gpus = 1 + static_cast<int64_t>(random.below(uint64_t{1} << random.below(27)));
  size.radix = 4 + 2 * static_cast<int64_t>(random.below(uint64_t{1} << random.below(10)));
  size.domain = 1 + static_cast<int64_t>(random.below(uint64_t{1} << random.below(11)));
  return size;
}

TEST(FabricCost, conserves_ports_and_orders_fabrics) {
  Random random(20260101);
  for (int i = 0; i < 20'000; ++i) {
    const FabricSize size = random_size(random);
    SCOPED_TRACE(fmt::format("{} GPUs, radix {}, domain {}", size.gpus, size.radix, size.domain));
    const FabricParts full = clos(size);
    const FabricParts rail = rail_only(size);
    EXPECT_EQ(full, parts_of(Fabric::kRailOptimized, size));
    for (const FabricParts& parts : {full, rail}) {
      // A port per GPU and two per link between tiers; less than one switch is left over.
      const int64_t ports = (2 * parts.tiers - 1) * size.gpus;
      EXPECT_GE(parts.switches * size.radix, ports);
      EXPECT_LT(parts.switches * size.radix, ports + size.radix);
      // A transceiver in every used port and in every GPU.
      EXPECT_EQ(parts.transceivers, ports + size.gpus);
      EXPECT_GE(parts.switches_whole_rails, parts.switches);
    }
    EXPECT_LE(rail.tiers, full.tiers);
    EXPECT_LE(rail.switches, full.switches);
    EXPECT_LE(rail.transceivers, full.transceivers);
    EXPECT_GE(cost_reduction(full, rail), 0);
    EXPECT_LT(cost_reduction(full, rail), 1);
  }
}

TEST(FabricCost, grows_with_gpus_and_falls_with_radix_and_domain) {
  Random random(20260102);
  for (int i = 0; i < 20'000; ++i) {
    const FabricSize size = random_size(random);
    SCOPED_TRACE(fmt::format("{} GPUs, radix {}, domain {}", size.gpus, size.radix, size.domain));
    FabricSize larger = size;
    larger.gpus += 1 + static_cast<int64_t>(random.below(1000));
    EXPECT_LE(clos(size).cost, clos(larger).cost);
    EXPECT_LE(rail_only(size).cost, rail_only(larger).cost);
    FabricSize wider = size;
    wider.radix *= 2;
    EXPECT_LE(clos(wider).tiers, clos(size).tiers);
    EXPECT_LE(rail_only(wider).switches, rail_only(size).switches);
    FabricSize deeper = size;
    deeper.domain *= 2;
    EXPECT_LE(rail_only(deeper).cost, rail_only(size).cost);
    EXPECT_EQ(clos(deeper), clos(size));  // the domain does not matter to it
  }
}

TEST(FabricCost, refuses_what_cannot_be_built) {
  EXPECT_TRUE(check(FabricSize{1000, 64, 256}));  // no multiple of the domain: allowed
  for (const FabricSize& size :
       {FabricSize{0, 64, 8}, FabricSize{-1, 64, 8}, FabricSize{kGpusMax + 1, 64, 8},
        FabricSize{8, 2, 8}, FabricSize{8, 63, 8}, FabricSize{8, 64, 0}}) {
    const Status status = check(size);
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().exit_code(), 2);
    EXPECT_NE(status.error().hint.find("--"), std::string::npos);
  }
  EXPECT_FALSE(check(EquipmentPrices{Dollars{-1}, Dollars{374}}));
  EXPECT_TRUE(check(EquipmentPrices{Dollars{0}, Dollars{0}}));
  EXPECT_EQ(cost_reduction({}, {}), 0);  // free equipment saves nothing
}

}  // namespace
}  // namespace tombolo::network
