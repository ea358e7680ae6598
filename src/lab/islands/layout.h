// The hosts and their places: node h of datacenter d is one host.
//
//   name      "oregon-0"                    <datacenter>-<node>
//   address   10.77.1.1                     10.77.<d + 1>.<h + 1>, of the network 10.77.0.0/16
//
// So a prefix of 24 bits is a datacenter, and an address shows where its host is.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "spec/cluster/cluster.h"
#include "spec/cluster/islands.h"

namespace tombolo::islands {

inline constexpr const char* kNetwork = "10.77.0.0/16";

// The address plan has room for 254 nodes in each of 254 datacenters, but a machine has not.
// Bringing this many hosts up and down takes a few seconds; twelve take half a second.
inline constexpr int64_t kHostsMax = 64;

// All hosts of a cluster, datacenter by datacenter. Their namespaces are not made yet, so that
// field is empty. Unusable: more than kHostsMax hosts; a datacenter whose name cannot be part of a
// host name; one of several datacenters that no WAN link reaches.
Result<std::vector<cluster::Host>> lay_out(const cluster::Cluster& cluster);

std::string address_of(int64_t datacenter, int64_t node);  // indices from 0
std::string prefix_of(int64_t datacenter);                 // "10.77.1.0/24"

// "10.77.1.1" in host byte order; CHECKs that it is an address.
uint32_t address_number(const std::string& address);

}  // namespace tombolo::islands
