#include "lab/islands/layout.h"

#include <arpa/inet.h>

#include <algorithm>
#include <cctype>

#include "base/check.h"

namespace tombolo::islands {
namespace {

constexpr int64_t kPlacesMax = 254;  // of a byte of an address, without 0 and 255

void check_datacenter(int64_t datacenter) {
  CHECK(datacenter >= 0 && datacenter < kPlacesMax, "datacenter {} has no prefix", datacenter);
}

// Letters, digits, hyphens: what /etc/hosts and every launcher's host list understand.
bool is_host_name(const std::string& name) {
  const auto fits = [](unsigned char c) { return std::isalnum(c) || c == '-' || c == '_'; };
  return !name.empty() && name.size() <= 48 && name.front() != '-' &&
         std::all_of(name.begin(), name.end(), fits);
}

}  // namespace

std::string address_of(int64_t datacenter, int64_t node) {
  CHECK(node >= 0 && node < kPlacesMax, "node {} has no address", node);
  check_datacenter(datacenter);
  return fmt::format("10.77.{}.{}", datacenter + 1, node + 1);
}

std::string prefix_of(int64_t datacenter) {
  check_datacenter(datacenter);
  return fmt::format("10.77.{}.0/24", datacenter + 1);
}

uint32_t address_number(const std::string& address) {
  in_addr number{};
  CHECK(inet_pton(AF_INET, address.c_str(), &number) == 1, "{} is no address", address);
  return ntohl(number.s_addr);
}

Result<std::vector<cluster::Host>> lay_out(const cluster::Cluster& cluster) {
  int64_t count = 0;
  for (const cluster::Datacenter& datacenter : cluster.datacenters) count += datacenter.nodes;
  if (count > kHostsMax) {
    return unusable(fmt::format("{} nodes: each would be a host with a namespace of its own, and "
                                "at most {} are made on one machine",
                                count, kHostsMax),
                    "fewer nodes with more devices each, or fewer nodes");
  }
  std::vector<cluster::Host> hosts;
  for (size_t d = 0; d < cluster.datacenters.size(); ++d) {
    const cluster::Datacenter& datacenter = cluster.datacenters[d];
    if (!is_host_name(datacenter.name)) {
      return unusable(
          fmt::format("datacenter \"{}\": its hosts cannot be named after it", datacenter.name),
          "a name of up to 48 letters, digits, hyphens and underscores");
    }
    const bool linked =
        std::any_of(cluster.wan.begin(), cluster.wan.end(), [&](const cluster::WanLink& link) {
          return link.between[0] == datacenter.name || link.between[1] == datacenter.name;
        });
    if (cluster.datacenters.size() > 1 && !linked) {
      return unusable(fmt::format("datacenter \"{}\": no WAN link leads there", datacenter.name),
                      "[[wan]] with between = [\"" + datacenter.name + "\", ...]");
    }
    for (int64_t h = 0; h < datacenter.nodes; ++h) {
      hosts.push_back({.name = fmt::format("{}-{}", datacenter.name, h),
                       .datacenter = datacenter.name,
                       .node = h,
                       .address = address_of(static_cast<int64_t>(d), h)});
    }
  }
  return hosts;
}

}  // namespace tombolo::islands
