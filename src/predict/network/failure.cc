#include "predict/network/failure.h"

#include <algorithm>

#include "base/check.h"

namespace tombolo::network {
namespace {

constexpr Fabric kFabrics[] = {Fabric::kRailOptimized, Fabric::kRailOnly};
constexpr Bytes kMessage{1.0};  // all laws are proportional to it: ratios do not depend on it

int64_t pairs(int64_t n) { return n * (n - 1) / 2; }

int64_t server_gpus(const FabricSize& size, const FailureOptions& options) {
  return options.server.value_or(size.domain <= 16 ? size.domain : 1);
}

Seconds all_to_all(Fabric fabric, const Grid& grid) {
  return fabric == Fabric::kRailOnly ? all_to_all_rail_only(grid, kMessage)
                                     : all_to_all_full_bisection(grid, kMessage);
}

double ratio(Seconds after, Seconds before) { return before.value > 0 ? after / before : 1.0; }

// Live pairs in different domains of which a GPU lost its network port.
int64_t pairs_off_network(Fabric fabric, const Grid& grid, const RailSwitch& lost) {
  const int64_t x = grid.domain;
  const int64_t y = grid.domains;
  if (fabric == Fabric::kRailOnly) return lost.rails * (pairs(y) - pairs(y - lost.domains));
  // All pairs in different domains, less those between GPUs that keep their port.
  const int64_t kept_inside = lost.domains * pairs(x - lost.rails) + (y - lost.domains) * pairs(x);
  return pairs(x * y) - y * pairs(x) - (pairs(x * y - lost.gpus()) - kept_inside);
}

// A domain without any port is an island; with one, its GPUs forward for each other.
int64_t pairs_cut_off(const Grid& grid, const RailSwitch& lost) {
  const int64_t x = grid.domain;
  if (lost.rails < x) return 0;
  return x * x * (pairs(grid.domains) - pairs(grid.domains - lost.domains));
}

// r of the x ports of a domain are gone: the others carry their bytes, x / (x-r) of before, and the
// GPUs without a port hand and get theirs over the scale-up links.
void forward_through_domain(FailureCase& row, const Grid& grid, int64_t r) {
  const auto x = static_cast<double>(grid.domain);
  const auto y = static_cast<double>(grid.domains);
  const double crowded = x / (x - static_cast<double>(r));
  const Bytes shard = kMessage / (x * y);

  const Seconds gather_rails = (y - 1) * shard / grid.port;
  const Seconds gather_inside = (x - 1) * kMessage / (x * grid.scale_up);
  const Seconds gather_handed = (y - 1) * shard / grid.scale_up;
  row.all_gather = ratio(crowded * gather_rails + gather_handed + gather_inside,
                         hierarchical_all_gather(grid, kMessage));

  const Seconds rails = crowded * x * (y - 1) * shard / grid.port;
  const Seconds handed = x * (y - 1) * shard / grid.scale_up;
  const Seconds after = row.fabric == Fabric::kRailOnly
                            ? y * (x - 1) * shard / grid.scale_up + rails
                            : std::max((x - 1) * shard / grid.scale_up, rails);
  row.all_to_all = ratio(after + handed, all_to_all(row.fabric, grid));
}

// The idle GPU sits on another rail. The job uses the same places in every domain, so that rail is
// idle and its GPUs in the other domains relay to and from the rail of the failed one.
void forward_to_spare(FailureCase& row, const Grid& used) {
  const auto x = static_cast<double>(used.domain);
  const auto y = static_cast<double>(used.domains);
  const Bytes shard = kMessage / (x * y);
  const Seconds gather = hierarchical_all_gather(used, kMessage);
  row.all_gather = ratio(gather + (y - 1) * shard / used.scale_up, gather);
  const Seconds exchange = all_to_all(row.fabric, used);
  // A relay carries x shards each way, if there is another domain at all.
  const Seconds relayed = (y > 1 ? x : 0) * shard / used.scale_up;
  row.all_to_all = ratio(exchange + relayed, exchange);
}

// A member of a domain works in another one: the domain's phase runs at network speed.
void stretch_domain(FailureCase& row, const Grid& grid) {
  const auto x = static_cast<double>(grid.domain);
  const auto y = static_cast<double>(grid.domains);
  const BytesPerSecond slowest = std::min(grid.port, grid.scale_up);
  const Bytes shard = kMessage / (x * y);
  row.all_gather = ratio((y - 1) * shard / grid.port + (x - 1) * kMessage / (x * slowest),
                         hierarchical_all_gather(grid, kMessage));
  row.all_to_all = ratio(std::max((x - 1) * shard / grid.scale_up, (x * y - 1) * shard / grid.port),
                         all_to_all_full_bisection(grid, kMessage));
}

// `count` GPUs of one domain fail.
void add_gpus(std::vector<FailureCase>& rows, FailedPart part, int64_t count, const Grid& grid,
              const FailureOptions& options) {
  const std::string one_gpu =
      part == FailedPart::kServer && count == 1
          ? "a server of one GPU: the paper says it is the failure of a GPU; "
          : "";
  for (const Fabric fabric : kFabrics) {
    const bool apart = fabric == Fabric::kRailOnly;
    FailureCase row;
    row.failed = part;
    row.fabric = fabric;
    row.bandwidth_lost = static_cast<double>(count) / grid.gpus();

    if (count < grid.domain) {  // an idle GPU stands by in the domain; the job uses the others
      Grid used = grid;
      used.domain = grid.domain - count;
      FailureCase idle = row;
      idle.spare = "idle GPU in the domain";
      idle.gpus_out = idle.gpus_moved = count;
      idle.all_gather = idle.all_to_all = 1.0;
      if (apart) {
        FailureCase forwarded = idle;
        forwarded.remedy = "reach the spare through its own rail and forward";
        forwarded.claim = Claim::kDerived;
        forwarded.note = one_gpu + "assumes that the spare's rail is idle in all domains";
        forward_to_spare(forwarded, used);
        rows.push_back(forwarded);
        idle.optical = true;
        idle.remedy = "switch the spare onto the rail";
        idle.note = one_gpu + "the paper proposes optical switches between GPUs and rail switches";
      } else {
        idle.remedy = "use the spare: any port reaches any other";
        idle.note = one_gpu + "its rail traffic now crosses the spine, at full rate";
      }
      idle.claim = Claim::kPaper;
      rows.push_back(idle);

      if (!apart) {
        FailureCase stretched = row;
        stretched.spare = "idle GPU in another domain";
        stretched.remedy = "move the task there";
        stretched.claim = Claim::kPaper;
        stretched.note = one_gpu +
                         "the paper calls it undesirable, and impossible rail-only: the domain "
                         "slows to network speed";
        stretched.gpus_out = stretched.gpus_moved = count;
        stretch_domain(stretched, grid);
        rows.push_back(stretched);
      }
    }

    FailureCase migrated = row;
    migrated.spare = "idle domain";
    migrated.remedy = "move the whole domain";
    migrated.claim = Claim::kPaper;
    migrated.note = one_gpu + "the paper's answer for small domains; the healthy GPUs stand idle";
    migrated.gpus_out = migrated.gpus_moved = grid.domain;
    migrated.all_gather = migrated.all_to_all = 1.0;
    rows.push_back(migrated);

    if (count < grid.domain) {
      FailureCase exchanged = row;
      exchanged.optical = true;
      exchanged.spare = "healthy GPUs of its optical core";
      exchanged.remedy = "exchange a small set";
      exchanged.claim = Claim::kPaper;
      exchanged.note =
          one_gpu + "the paper's answer for large domains; the size of the set is ours";
      exchanged.gpus_out = exchanged.gpus_moved =
          std::min(grid.domain, std::max(count, options.optical_group));
      exchanged.all_gather = exchanged.all_to_all = 1.0;
      rows.push_back(exchanged);
    }
  }
}

void add_whole_server(std::vector<FailureCase>& rows, const Grid& grid) {
  for (const Fabric fabric : kFabrics) {
    FailureCase row;
    row.failed = FailedPart::kServer;
    row.fabric = fabric;
    row.spare = "idle server";
    row.remedy = "move the task to it";
    row.claim = Claim::kPaper;
    row.note = "the server is the domain: its GPUs keep their rails";
    row.bandwidth_lost = static_cast<double>(grid.domain) / grid.gpus();
    row.gpus_out = row.gpus_moved = grid.domain;
    row.all_gather = row.all_to_all = 1.0;
    rows.push_back(row);
  }
}

// The ports behind a switch or a link are lost; the GPUs live.
void add_ports(std::vector<FailureCase>& rows, FailedPart part, Fabric fabric, const Grid& grid,
               const RailSwitch& lost) {
  FailureCase row;
  row.failed = part;
  row.fabric = fabric;
  row.bandwidth_lost = static_cast<double>(lost.gpus()) / grid.gpus();
  row.pairs_off_network = pairs_off_network(fabric, grid, lost);
  row.pairs_cut_off = pairs_cut_off(grid, lost);

  FailureCase without = row;
  without.spare = "nothing";
  without.remedy = "continue without the GPUs behind it";
  without.claim = Claim::kPaper;
  without.note = "the paper: they become unavailable, in either fabric";
  without.gpus_out = lost.gpus();
  rows.push_back(without);

  if (lost.rails < grid.domain) {
    FailureCase forwarded = row;
    forwarded.spare = "nothing";
    forwarded.remedy = "forward through the other GPUs of the domain";
    forwarded.claim = Claim::kDerived;
    forwarded.note = "spread evenly over the ports that are left";
    forward_through_domain(forwarded, grid, lost.rails);
    rows.push_back(forwarded);
  }

  FailureCase reconnected = row;
  reconnected.optical = true;
  const bool is_switch = part == FailedPart::kRailSwitch;
  reconnected.spare = is_switch ? "rail switch" : "port of a rail switch";
  reconnected.remedy = "switch the GPUs over to it";
  reconnected.claim = Claim::kDerived;
  reconnected.note = is_switch
                         ? "the paper: extra rail switches can be kept; optics between GPUs and "
                           "switches bring them in"
                         : "a break between the GPU and its optical switch is not mended by it";
  reconnected.all_gather = reconnected.all_to_all = 1.0;
  rows.push_back(reconnected);
}

}  // namespace

RailSwitch rail_switch(Fabric fabric, const FabricSize& size) {
  const int64_t x = size.rails();
  const int64_t y = size.rail();
  const bool apart = fabric == Fabric::kRailOnly;
  const int64_t height = tiers(apart ? y : size.gpus, size.radix);
  if (!apart && height == 1) return {x, y};                        // one switch for all
  const int64_t down = height == 1 ? size.radix : size.radix / 2;  // the others lead up
  if (y >= down) return {1, down};
  return {std::min(x, down / y), y};
}

Status check(const FabricSize& size, const FailureOptions& options) {
  const int64_t server = server_gpus(size, options);
  if (server < 1 || size.domain % server != 0) {
    return unusable(
        fmt::format("--server {}: a domain of {} GPUs must be whole servers", server, size.domain),
        fmt::format("--server {} or --server 1", size.domain));
  }
  if (options.optical_group < 1) {
    return unusable(fmt::format("--optical-group {}: must be at least 1", options.optical_group),
                    "--optical-group 8");
  }
  return {};
}

std::vector<FailureCase> failure_cases(const FabricSize& size, const Grid& grid,
                                       const FailureOptions& options) {
  FabricSize whole = size;
  whole.gpus = grid.domain * grid.domains;
  whole.domain = grid.domain;
  CHECK(whole.gpus <= size.gpus, "{} GPUs in whole domains, of {}", whole.gpus, size.gpus);

  std::vector<FailureCase> rows;
  add_gpus(rows, FailedPart::kGpu, 1, grid, options);
  const int64_t server = std::min(server_gpus(size, options), grid.domain);
  if (server == grid.domain) {
    add_whole_server(rows, grid);
  } else {
    add_gpus(rows, FailedPart::kServer, server, grid, options);
  }
  for (const Fabric fabric : kFabrics) {
    add_ports(rows, FailedPart::kRailSwitch, fabric, grid, rail_switch(fabric, whole));
  }
  for (const Fabric fabric : kFabrics) add_ports(rows, FailedPart::kLink, fabric, grid, {1, 1});
  return rows;
}

}  // namespace tombolo::network
