// The sockets of joining (trust/join.h): one host waits for the host that it invited, which calls.
//
// Nothing here needs to be fast. At most 32 unauthenticated connections are served at once, each
// for 10 s, and each that is refused costs one line in the log; the invited host gets in meanwhile.
#pragma once

#include <functional>
#include <string>

#include "base/clock.h"
#include "perform/transport/address.h"
#include "perform/trust/authority.h"
#include "perform/trust/join.h"

namespace tombolo::transport {

struct Welcome {
  Address at{"0.0.0.0", 0};  // where to listen; port 0: any that is free
  std::string name;          // of the host that may join
  trust::Invitation invitation;
  SimTime deadline;                              // of the invitation
  std::function<void(uint16_t port)> on_listen;  // this host can be called now
  std::function<void(const std::string&)> log;   // a line per refused connection
};
// Blocks until the invited host has its certificate, and returns where it called from.
Result<std::string> welcome_host(const Welcome& welcome, const trust::Authority& authority,
                                 const trust::Credentials& own, const Clock& clock);

// Calls the host that invited this one. Blocks for at most `patience`. `key`: PEM, of a certificate
// to renew; empty: a new one.
Result<trust::Credentials> join_host(const Address& inviter, const trust::Invitation& invitation,
                                     SimDuration patience, const Clock& clock,
                                     const std::string& key = {});

}  // namespace tombolo::transport
