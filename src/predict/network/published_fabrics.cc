#include "predict/network/fabric.h"

namespace tombolo::network {
namespace {

constexpr PublishedFabric kTableTwo[] = {
    {{32768, 64, 256}, 2560, 1536, 196608, 131072, 37},
    {{32768, 128, 256}, 1280, 256, 196608, 65536, 75},
    {{32768, 256, 256}, 384, 128, 131072, 65536, 60},
    {{65536, 64, 256}, 5120, 3072, 393216, 262144, 37},
    {{65536, 128, 256}, 2560, 1536, 393216, 262144, 37},
    {{65536, 256, 256}, 1280, 256, 393216, 131072, 75},
};

}  // namespace

std::span<const PublishedFabric> published_fabrics() { return kTableTwo; }

std::vector<PublishedNumber> table_two() {
  std::vector<PublishedNumber> out;
  for (const PublishedFabric& row : kTableTwo) {
    const FabricParts sota = parts_of(Fabric::kRailOptimized, row.size);
    const FabricParts rail = parts_of(Fabric::kRailOnly, row.size);
    const std::string size = fmt::format("{} GPUs, radix {}: ", row.size.gpus, row.size.radix);
    out.push_back({size + "SOTA", "switches", sota.switches, row.clos_switches});
    out.push_back({size + "rail-only", "switches", rail.switches, row.rail_only_switches});
    out.push_back({size + "SOTA", "transceivers", sota.transceivers, row.clos_transceivers});
    out.push_back(
        {size + "rail-only", "transceivers", rail.transceivers, row.rail_only_transceivers});
    out.push_back(
        {size + "cost reduction", "%", percent_cut_off(sota, rail), row.reduction_percent});
  }
  return out;
}

}  // namespace tombolo::network
