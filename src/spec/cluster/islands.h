// Islands: the hosts of an emulated cluster, on one machine. Each node of each datacenter is a host
// with a network namespace and an address of its own; between datacenters stands an emulated WAN.
//
// `tools/islands` makes them and puts this description into the environment of what it runs, as
// JSON. The runtime reads it there: it starts the workers of a node in that node's namespace, and
// lets them talk in plain TCP to addresses of this network, which cannot leave the machine.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/fields.h"
#include "base/result.h"

namespace tombolo::cluster {

struct Host {
  std::string name;  // "oregon-0"
  std::string datacenter;
  int64_t node = 0;
  std::string address;            // IPv4
  std::string network_namespace;  // a path that setns() takes, such as "/proc/1/fd/12"

  bool operator==(const Host&) const = default;
};

struct Islands {
  std::string network;    // of all addresses, such as "10.77.0.0/16"; reachable by its hosts only
  double byte_scale = 1;  // what rates and TCP windows were divided by
  std::vector<Host> hosts;

  const Host* find(std::string_view datacenter, int64_t node) const;
  bool operator==(const Islands&) const = default;
};

inline constexpr const char* kIslandsVariable = "TOMBOLO_ISLANDS";

std::string to_json_text(const Islands& islands);
Result<Islands> parse_islands(std::string_view json);
// What this process runs in; nothing where the variable is not set.
Result<std::optional<Islands>> islands_of_environment();

template <class Archive>
void describe(Archive& a, Host& host) {
  a.required("name", host.name);
  a.required("datacenter", host.datacenter);
  a.required("node", host.node);
  a.required("address", host.address);
  a.required("network_namespace", host.network_namespace);
}

template <class Archive>
void describe(Archive& a, Islands& islands) {
  a.required("network", islands.network);
  a.optional("byte_scale", islands.byte_scale);
  a.required("hosts", islands.hosts);
  a.check(islands.byte_scale >= 1, "byte_scale", "must be at least 1");
}

}  // namespace tombolo::cluster
