// What a GPU cluster's network is made of, and what it costs: Clos, rail-optimised, rail-only.
//
// K GPUs share a scale-up domain (NVLink); each also has one network port. The GPUs at one place in
// all domains are a rail. Three ways to join N network ports with switches of k ports:
//
//   Clos            any port reaches any other at full rate: one folded Clos of N ports
//   rail-optimised  the same Clos; ports are attached so that a rail shares its lowest switches
//   rail-only       no spine above the rails: K separate Clos of N / K ports
//
// The counts are those of law `fabric-cost` (docs/laws/fabric_cost.md):
//
//   tiers(n, k) = smallest j >= 1 with 2 (k/2)^j >= n
//   switches    = (2 j - 1) N / k        every tier but the top has as many ports up as down
//   transceivers = 2 j N                 a transceiver at both ends of every link
//
// with n = N for Clos and rail-optimised and n = N / K for rail-only.
//
// Source: Wang et al., "How to Build Low-cost Networks for Large Language Models (without
// Sacrificing Performance)?", 2023, section 6.5; all of Table 2 comes out exactly.
//
// Whole numbers. Switches are bought whole: (2 j - 1) N / k rounds up, once, over the whole fabric.
// This counts ports: a switch may serve several rails or tiers, isolated by its configuration, as
// the paper does where rails are small. A rail of one tier cannot be split over two switches,
// however, because no port is left to join its halves; `switches_whole_rails` says how many
// switches there must be then. Both agree where the rail's size divides the radix, as in the paper.
// Where N is no multiple of K, some rails have one GPU more; tiers are those of the largest rail.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/fields.h"
#include "base/result.h"
#include "base/units.h"

namespace tombolo::network {

inline constexpr int64_t kGpusMax = 1'000'000'000;  // keeps pairs of GPUs within 64 bits
inline constexpr int64_t kRadixMax = 1'000'000;

enum class Fabric { kClos, kRailOptimized, kRailOnly };
constexpr auto enum_names(Fabric) {
  return std::to_array<EnumName<Fabric>>({{Fabric::kClos, "clos"},
                                          {Fabric::kRailOptimized, "rail-optimized"},
                                          {Fabric::kRailOnly, "rail-only"}});
}

// What equipment costs, for 400 Gbps. Source: Wang et al., TopoOpt, NSDI 2023, as cited in the
// rail-only paper's footnote 1.
struct EquipmentPrices {
  Dollars switch_port{748};
  Dollars transceiver{374};
};

struct FabricSize {
  int64_t gpus = 0;    // N
  int64_t radix = 64;  // k: ports of a switch, even
  int64_t domain = 8;  // K: GPUs of a scale-up domain

  int64_t domains() const { return (gpus + domain - 1) / domain; }  // the last may be partial
  int64_t rails() const { return gpus < domain ? gpus : domain; }
  int64_t rail() const { return domains(); }  // GPUs of the largest rail
};

// Unusable, with what to try, where the size is out of range or the radix odd.
Status check(const FabricSize& size);
Status check(const EquipmentPrices& prices);

struct FabricParts {
  int64_t tiers = 0;
  int64_t switches = 0;
  int64_t transceivers = 0;
  int64_t switches_whole_rails = 0;  // if no rail may be split over unconnected switches
  Dollars cost;                      // switches, all ports of them, and transceivers

  bool operator==(const FabricParts&) const = default;
};

// The smallest number of tiers that joins `ports` with switches of `radix` ports. O(log ports).
int64_t tiers(int64_t ports, int64_t radix);

// The parts list of a fabric; size and prices must have passed check().
FabricParts parts_of(Fabric fabric, const FabricSize& size, const EquipmentPrices& prices = {});

// What `now` saves of what `before` costs: 0.375 is 37.5 % less; 0 where `before` is free. The
// percentage is cut off, not rounded, as in Table 2 (37.5 -> 37).
double cost_reduction(const FabricParts& before, const FabricParts& now);
int64_t percent_cut_off(const FabricParts& before, const FabricParts& now);

// A row of Table 2 of Wang et al. 2023 (rail-only), as printed; "SOTA" is the rail-optimised Clos.
// The domain of 256 GPUs (GH200) is not stated there; it is the one that meets all rows.
struct PublishedFabric {
  FabricSize size;
  int64_t clos_switches;
  int64_t rail_only_switches;
  int64_t clos_transceivers;
  int64_t rail_only_transceivers;
  int64_t reduction_percent;  // cut off, not rounded
};
std::span<const PublishedFabric> published_fabrics();

// One printed number and ours: "32768 GPUs, radix 64: rail-only", "switches".
struct PublishedNumber {
  std::string name;
  std::string unit;
  int64_t ours = 0;
  int64_t published = 0;
};
// The 24 counts and 6 reductions of table 2, row by row. All agree.
std::vector<PublishedNumber> table_two();

}  // namespace tombolo::network
