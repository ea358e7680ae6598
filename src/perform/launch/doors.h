// Doors: where a process listens, and where others call it. Behind network address translation
// these are two addresses: a cloud host listens on 10.0.0.5, and is called at 203.0.113.7.
#pragma once

#include <string>

#include "base/result.h"
#include "perform/control/lease.h"
#include "perform/transport/address.h"
#include "perform/transport/endpoint.h"

namespace tombolo::launch {

struct Doors {
  std::string listen;          // an address of this host, or all of them: "0.0.0.0", "::"
  std::string advertised;      // others call this one
  std::string here;            // processes of this host call this one
  transport::PortRange ports;  // of ranks; any where left out
  bool operator==(const Doors&) const = default;
};

// What somebody asked for; what is left out follows from the rendezvous.
struct DoorWishes {
  std::string listen;
  std::string advertised;
  transport::PortRange ports;
};

// For the coordinator, which others call at the rendezvous, and for the other ranks. Unusable where
// nobody could call such a door, or this host has no such address. Asks the kernel.
Result<Doors> coordinator_doors(const transport::Address& rendezvous, const DoorWishes& wishes);
Result<Doors> rank_doors(const transport::Address& rendezvous, const DoorWishes& wishes);

// A connection between launcher and rank that is reset, as gateways do, is called again at once,
// and nothing that it carried is lost. Who has not called within kCallAgainMax has ended: so a
// killed process of another host is known by then. Silence is for leases to judge, which may last
// as long as the longest cut that is borne.
inline constexpr SimDuration kCallAgainMax{2'000'000'000};
void bear_resets(transport::Endpoint::Options& door, const control::LeaseTerms& terms);

}  // namespace tombolo::launch
