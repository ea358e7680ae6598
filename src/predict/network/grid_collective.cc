#include "predict/network/grid_collective.h"

#include <algorithm>
#include <cmath>

namespace tombolo::network {
namespace {

struct Sides {
  double x;
  double y;
};
Sides sides(const Grid& grid) {
  return {static_cast<double>(grid.domain), static_cast<double>(grid.domains)};
}

Seconds cut_rail_optimized(const Grid& grid, Bytes gathered) {
  return all_gather_cut(Fabric::kRailOptimized, grid, gathered);
}
Seconds cut_rail_only(const Grid& grid, Bytes gathered) {
  return all_gather_cut(Fabric::kRailOnly, grid, gathered);
}

constexpr std::string_view kPaper1 = "Wang et al. 2023, Eq. 1";
constexpr CollectiveLaw kLaws[] = {
    {"hierarchical-all-gather", "all-gather", Fabric::kRailOptimized, kPaper1,
     "long messages; phases one after the other", hierarchical_all_gather},
    {"hierarchical-all-gather", "all-gather", Fabric::kRailOnly, kPaper1,
     "long messages; phases one after the other", hierarchical_all_gather},
    {"all-gather-cut", "all-gather", Fabric::kRailOptimized, "Wang et al. 2023, Eq. 8",
     "lower bound of any schedule", cut_rail_optimized},
    {"all-gather-cut", "all-gather", Fabric::kRailOnly, "Wang et al. 2023, Eq. 9",
     "lower bound of any schedule", cut_rail_only},
    {"all-to-all-full-bisection", "all-to-all", Fabric::kRailOptimized, "Wang et al. 2023, Eq. 20",
     "long messages; equal shards", all_to_all_full_bisection},
    {"all-to-all-rail-only", "all-to-all", Fabric::kRailOnly, "Wang et al. 2023, Eq. 21",
     "long messages; equal shards; phases one after the other", all_to_all_rail_only},
    {"all-to-all-rail-only-overlapped", "all-to-all", Fabric::kRailOnly,
     "ours, from Wang et al. 2023, appendix D", "lower bound of any schedule; equal shards",
     all_to_all_rail_only_overlapped},
};

}  // namespace

Status check(const Grid& grid) {
  if (grid.domain < 1 || grid.domains < 1) {
    return unusable(fmt::format("a grid of {} domains of {} GPUs: both must be at least 1",
                                grid.domains, grid.domain));
  }
  const auto usable = [](BytesPerSecond rate) {
    return std::isfinite(rate.value) && rate.value > 0;
  };
  if (!usable(grid.scale_up)) {
    return unusable(fmt::format("--domain-bandwidth {}: must be positive", format(grid.scale_up)),
                    "--domain-bandwidth 900GBps");
  }
  if (!usable(grid.port)) {
    return unusable(fmt::format("--port-bandwidth {}: must be positive", format(grid.port)),
                    "--port-bandwidth 400Gbps");
  }
  return {};
}

Seconds hierarchical_all_gather(const Grid& grid, Bytes gathered) {
  const auto [x, y] = sides(grid);
  return (y - 1) * gathered / (x * y * grid.port) + (x - 1) * gathered / (x * grid.scale_up);
}

Seconds all_gather_cut(Fabric fabric, const Grid& grid, Bytes gathered) {
  const auto [x, y] = sides(grid);
  const bool rails_apart = fabric == Fabric::kRailOnly;
  const Bytes shard = gathered / (x * y);
  Seconds bound = 0_s;
  if (y > 1) bound = std::max(bound, (y - 1) * shard / grid.port);
  if (x > 1 && (y > 1 || !rails_apart)) {
    bound = std::max(bound, (x * y - 1) * shard / (grid.scale_up + grid.port));
  }
  if (x > 1 && rails_apart) bound = std::max(bound, (x - 1) * shard / grid.scale_up);
  return bound;
}

bool domain_cut_binds(const Grid& grid) {
  const auto [x, y] = sides(grid);
  return y > 1 && (y - 1) * grid.scale_up >= y * (x - 1) * grid.port;
}

Seconds all_to_all_full_bisection(const Grid& grid, Bytes message) {
  const auto [x, y] = sides(grid);
  const Bytes shard = message / (x * y);
  return std::max((x - 1) * shard / grid.scale_up, x * (y - 1) * shard / grid.port);
}

Seconds all_to_all_rail_only(const Grid& grid, Bytes message) {
  const auto [x, y] = sides(grid);
  const Bytes shard = message / (x * y);
  return y * (x - 1) * shard / grid.scale_up + x * (y - 1) * shard / grid.port;
}

Seconds all_to_all_rail_only_overlapped(const Grid& grid, Bytes message) {
  const auto [x, y] = sides(grid);
  const Bytes shard = message / (x * y);
  return std::max(y * (x - 1) * shard / grid.scale_up, x * (y - 1) * shard / grid.port);
}

double all_to_all_slowdown(const Grid& grid) {
  const auto [x, y] = sides(grid);
  if (y <= 1) return 0;
  return y * (x - 1) * grid.port.value / (x * (y - 1) * grid.scale_up.value);
}

std::span<const CollectiveLaw> collective_laws() { return kLaws; }

}  // namespace tombolo::network
