// Berths: where the ranks of a Plan lie on this machine.
//
// Without islands all ranks share this host and its loopback. In emulated islands each node of the
// Plan is a host with a network namespace and an address (cluster/islands.h).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "spec/cluster/islands.h"
#include "spec/plan/plan.h"

namespace tombolo::launch {

struct Berth {
  std::string address = "127.0.0.1";  // where its worker listens
  std::string network_namespace;      // a path for setns(); empty: that of this process
  bool no_inbound = false;            // nobody can call it (reach.h)
};

// By rank. Unusable where the islands are not those of the Plan: a node that is no host, another
// byte_scale, or a WAN link that wants more connections than the transport makes.
Result<std::vector<Berth>> berths_of(const plan::Plan& plan,
                                     const std::optional<cluster::Islands>& islands);

// Unusable where a rank could not reach the host with this address: every rank talks to the
// launcher, and between datacenters there is nothing but WAN links.
Status check_reach(const plan::Plan& plan, const cluster::Islands& islands,
                   const std::string& launcher);

// The address of the host in whose namespace this process runs: loopback without islands, the first
// host's unless somebody went elsewhere. Unusable outside of all of them.
Result<std::string> own_address(const std::optional<cluster::Islands>& islands);

}  // namespace tombolo::launch
