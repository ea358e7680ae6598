// Addresses, and which of them plain TCP may use.
//
// Without credentials (endpoint.h) nothing is encrypted, so bytes may not leave this machine:
// loopback is allowed, and so is the private network of emulated islands, which its hosts alone can
// reach (docs/decisions/0005, 0015).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/time.h"

namespace tombolo::transport {

// "10.77.1.2:29511", "[fd00::2]:29511": an IPv4 or IPv6 address, or a name.
struct Address {
  std::string host;  // without brackets
  uint16_t port = 0;

  std::string text() const;
  bool operator==(const Address&) const = default;
};

// Unusable unless it is HOST:PORT, with brackets around an IPv6 address. The host may still be a
// name: nothing is looked up.
Result<Address> parse_address(std::string_view text);

// Ports to listen on, the first that is free; {0, 0}: any.
struct PortRange {
  uint16_t first = 0;
  uint16_t last = 0;
  bool operator==(const PortRange&) const = default;
};
Result<PortRange> parse_ports(std::string_view text);  // "29520-29529", "29520"

// 127.0.0.0/8 and ::1; and the address that a listener gives for all addresses of its host
// (0.0.0.0, ::).
bool is_loopback(const std::string& host);
bool is_every_address(const std::string& host);

// Unusable unless `host` is an address of the loopback network or of `network`, which is a CIDR
// block such as "10.77.0.0/16" inside the addresses for private use (RFC 1918), or empty.
Status check_stays_here(const std::string& host, const std::string& network);

// Whether a program could listen there now: the address belongs to an interface of the network
// namespace of this process. Costs a socket.
bool is_address_of_this_host(const std::string& host);

// Whether a process accepts a connection there within `patience`. The connection is closed at once,
// unused.
bool takes_connections(const Address& at, SimDuration patience);

// Resolves the name of a host, to IPv4 where it has such an address; an address is returned as it
// is. Uses the machine's resolver, and may take seconds.
Result<std::string> resolve(const std::string& host);

// Which address of this host others see when it talks to `host`. Sends nothing.
Result<std::string> own_address_towards(const std::string& host);

}  // namespace tombolo::transport
