#include "perform/join/listen_address.h"

#include <algorithm>

namespace tombolo::join {
namespace {

Status check_wanted(const transport::Address& rendezvous, const ListenAddress& wanted) {
  if (transport::is_every_address(rendezvous.host)) {
    return unusable(
        fmt::format("the rendezvous {} is every address of a host, and no rank can call "
                    "it",
                    rendezvous.text()),
        "the address that other hosts call, and --listen " + rendezvous.host);
  }
  if (transport::is_every_address(wanted.advertised)) {
    return unusable(
        fmt::format("--advertise {}: no rank can call every address of a host", wanted.advertised),
        "the address that other hosts call");
  }
  if (wanted.listen.empty() || transport::is_address_of_this_host(wanted.listen)) return {};
  return unusable(fmt::format("--listen {}: this host has no such address", wanted.listen),
                  "one of those that `ip address` shows, or 0.0.0.0 for all; what others call is "
                  "--advertise");
}

// An address of this host that its own processes can call.
Result<std::string> callable_here(const std::string& listen, const std::string& towards) {
  if (!transport::is_every_address(listen)) return listen;
  return transport::own_address_towards(towards);
}

}  // namespace

Result<ListenAddress> coordinator_address(const transport::Address& rendezvous,
                                          const ListenAddress& wanted) {
  TRY(check_wanted(rendezvous, wanted));
  ListenAddress out = wanted;
  if (out.listen.empty()) out.listen = rendezvous.host;
  if (out.advertised.empty()) out.advertised = rendezvous.host;
  if (!transport::is_address_of_this_host(out.listen)) {
    const auto own = transport::own_address_towards(rendezvous.host);
    return unusable(
        fmt::format("{} is no address of this host, on which rank 0 listens", rendezvous.host),
        fmt::format("--listen {}, if calls to {} come to this host",
                    own ? *own : "with an address of this host", rendezvous.host));
  }
  out.here = TRY(callable_here(out.listen, rendezvous.host));
  return out;
}

Result<ListenAddress> rank_address(const transport::Address& rendezvous,
                                   const ListenAddress& wanted) {
  TRY(check_wanted(rendezvous, wanted));
  ListenAddress out = wanted;
  if (out.listen.empty()) out.listen = TRY(transport::own_address_towards(rendezvous.host));
  out.here = TRY(callable_here(out.listen, rendezvous.host));
  if (out.advertised.empty()) out.advertised = out.here;
  return out;
}

void outlive_cuts(transport::Endpoint::Options& listener, const control::LeaseTerms& terms) {
  constexpr SimDuration kSilenceMin{2'000'000'000};
  listener.grace = std::max(terms.ceiling, kCallAgainMax);
  listener.ended_max = kCallAgainMax;
  listener.receipt_after = terms.beat * 2;  // the next heartbeat, or its answer, takes it along
  // As between ranks, and several times within a short lease.
  listener.silence_max =
      std::clamp(SimDuration{terms.ceiling.ns / 4}, kSilenceMin, listener.silence_max);
  // Where heartbeats do not say enough; also for one whose --grace is another.
  listener.ping_every = std::min(SimDuration{listener.silence_max.ns / 4}, listener.ping_every);
}

}  // namespace tombolo::join
