#include "perform/launch/doors.h"

#include <algorithm>

namespace tombolo::launch {
namespace {

Status check_wishes(const transport::Address& rendezvous, const DoorWishes& wishes) {
  if (transport::is_every_address(rendezvous.host)) {
    return unusable(fmt::format("the rendezvous {} is every address of a host, and nobody can call "
                                "it",
                                rendezvous.text()),
                    "the address that other hosts call, and --listen " + rendezvous.host);
  }
  if (transport::is_every_address(wishes.advertised)) {
    return unusable(
        fmt::format("--advertise {}: nobody can call every address of a host", wishes.advertised),
        "the address that other hosts call");
  }
  if (wishes.listen.empty() || transport::is_address_of_this_host(wishes.listen)) return {};
  return unusable(fmt::format("--listen {}: this host has no such address", wishes.listen),
                  "one of those that `ip address` shows, or 0.0.0.0 for all; what others call is "
                  "--advertise");
}

// An address of this host that its own processes can call.
Result<std::string> callable_here(const std::string& listen, const std::string& towards) {
  if (!transport::is_every_address(listen)) return listen;
  return transport::own_address_towards(towards);
}

}  // namespace

Result<Doors> coordinator_doors(const transport::Address& rendezvous, const DoorWishes& wishes) {
  TRY(check_wishes(rendezvous, wishes));
  Doors doors{.listen = wishes.listen, .advertised = wishes.advertised, .ports = wishes.ports};
  if (doors.listen.empty()) doors.listen = rendezvous.host;
  if (doors.advertised.empty()) doors.advertised = rendezvous.host;
  if (!transport::is_address_of_this_host(doors.listen)) {
    const auto own = transport::own_address_towards(rendezvous.host);
    return unusable(
        fmt::format("{} is no address of this host, on which rank 0 listens", rendezvous.host),
        fmt::format("--listen {}, if calls to {} come to this host",
                    own ? *own : "with an address of this host", rendezvous.host));
  }
  doors.here = TRY(callable_here(doors.listen, rendezvous.host));
  return doors;
}

Result<Doors> rank_doors(const transport::Address& rendezvous, const DoorWishes& wishes) {
  TRY(check_wishes(rendezvous, wishes));
  Doors doors{.listen = wishes.listen, .advertised = wishes.advertised, .ports = wishes.ports};
  if (doors.listen.empty()) doors.listen = TRY(transport::own_address_towards(rendezvous.host));
  doors.here = TRY(callable_here(doors.listen, rendezvous.host));
  if (doors.advertised.empty()) doors.advertised = doors.here;
  return doors;
}

void bear_resets(transport::Endpoint::Options& door, const control::LeaseTerms& terms) {
  door.grace = kCallAgainMax;
  door.receipt_after = terms.beat * 2;  // the next heartbeat, or its answer, takes it along
  door.silence_max = std::max(terms.ceiling, SimDuration{2'000'000'000});
  door.ping_every = {door.silence_max.ns / 2};  // heartbeats say enough
}

}  // namespace tombolo::launch
