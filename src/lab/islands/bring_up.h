// The hosts of a cluster as network namespaces, and the networks that join them.
//
//                 lan0 -- bridge (a namespace per datacenter) -- lan0 of the other nodes
//   a host  lo
//                 wan0 -- the Forwarder (wanem), for the prefixes of other datacenters
//
// A host's address sits on lan0; wan0 has routes only. There is no default route and none to a
// datacenter without a link: such a connection fails at once, and nothing leaves the machine.
//
// All namespaces are anonymous: only descriptors of this process hold them, so they vanish with it.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "lab/islands/network_namespace.h"
#include "lab/wanem/forwarder.h"
#include "spec/cluster/cluster.h"
#include "spec/cluster/islands.h"

namespace tombolo::islands {

struct Island {
  cluster::Host host;  // its network_namespace filled in
  NetworkNamespace network;
  FileDescriptor tun;  // of wan0; wanem::Port
};

struct Archipelago {
  std::vector<Island> islands;
  std::vector<NetworkNamespace> switches;  // one per datacenter
  std::vector<std::string> missing;        // kernel settings that this kernel does not have

  const Island* find(const std::string& name) const;
};

// Cost: about 20 ms per host, and 40 ms to take it down. Needs root; see check_privileges (room.h).
Result<Archipelago> bring_up(const cluster::Cluster& cluster, std::vector<cluster::Host> hosts,
                             double byte_scale);

// Writes the kernel settings of every host again: connections made from now on follow them.
Status apply_settings(Archipelago& archipelago, const cluster::Cluster& cluster, double byte_scale);

// The hosts as ports of a Forwarder.
std::vector<wanem::Port> ports_of(const Archipelago& archipelago, const cluster::Cluster& cluster);

}  // namespace tombolo::islands
