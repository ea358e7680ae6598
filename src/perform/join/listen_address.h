// Where a process listens, and where others call it. Behind network address translation
// these are two addresses: a cloud host listens on 10.0.0.5, and is called at 203.0.113.7.
#pragma once

#include <string>

#include "base/result.h"
#include "perform/control/lease.h"
#include "perform/transport/address.h"
#include "perform/transport/endpoint.h"

namespace tombolo::join {

struct ListenAddress {
  std::string listen = {};          // an address of this host, or all of them: "0.0.0.0", "::"
  std::string advertised = {};      // others call this one; empty: the one on which it listens
  std::string here = {};            // processes of this host call this one
  transport::PortRange ports = {};  // of ranks; any where left out
  bool no_inbound = false;          // it takes no calls, and calls itself (dialling.h)
  bool operator==(const ListenAddress&) const = default;
};

// For the coordinator, which others call at the rendezvous, and for the other ranks: `wanted`, where
// what was left out follows from the rendezvous. Unusable where no host could call it, or this host
// has no such address. Asks the kernel.
Result<ListenAddress> coordinator_address(const transport::Address& rendezvous,
                                          const ListenAddress& wanted);
Result<ListenAddress> rank_address(const transport::Address& rendezvous,
                                   const ListenAddress& wanted);

// The link between launcher and rank recovers as those between ranks do: a connection that is reset,
// as gateways do, is redialed at once, one that is silent after seconds, and nothing that it carried
// is lost. A peer that ended its connection and has not redialed within kCallAgainMax has ended: so a
// killed process of another host is noticed by then. How long silence is tolerated is for the leases
// to decide: the link waits for as long as the longest one.
inline constexpr SimDuration kCallAgainMax{2'000'000'000};
void outlive_cuts(transport::Endpoint::Options& listener, const control::LeaseTerms& terms);

}  // namespace tombolo::join
