// Table 2 of Wang et al. 2023 (rail-only), beside ours.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "predict/network/fabric.h"

namespace tombolo::network {

// A row as printed; "SOTA" is the rail-optimised Clos. The domain of 256 GPUs (GH200) is not stated
// there; it is the one that meets all rows.
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
