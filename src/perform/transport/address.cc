#include "perform/transport/address.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <climits>
#include <cstring>
#include <optional>

#include "base/check.h"

namespace tombolo::transport {
namespace {

struct Block {
  uint32_t network = 0;
  int bits = 0;

  bool contains(uint32_t address) const { return ((address ^ network) & mask()) == 0; }
  uint32_t mask() const { return bits == 0 ? 0 : ~uint32_t{0} << (32 - bits); }
};

constexpr Block kLoopback{0x7f000000, 8};
constexpr Block kPrivate[] = {{0x0a000000, 8}, {0xac100000, 12}, {0xc0a80000, 16}};  // RFC 1918

template <typename Number>
std::optional<Number> number(std::string_view text) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<uint32_t> ipv4(std::string_view text) {
  in_addr address{};
  if (inet_pton(AF_INET, std::string(text).c_str(), &address) != 1) return std::nullopt;
  return ntohl(address.s_addr);
}

// An address of either kind, as the kernel wants it.
struct KernelAddress {
  sockaddr_storage bytes{};
  socklen_t size = 0;

  int family() const { return bytes.ss_family; }
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&bytes); }
};

// Nothing for a name. IPv6 may name its interface: fe80::1%eth0.
std::optional<KernelAddress> kernel_address(const std::string& host, uint16_t port) {
  KernelAddress out;
  if (const auto address = ipv4(host)) {
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_port = htons(port);
    at.sin_addr.s_addr = htonl(*address);
    std::memcpy(&out.bytes, &at, sizeof at);
    out.size = sizeof at;
    return out;
  }
  if (host.find(':') == std::string::npos) return std::nullopt;
  addrinfo wish{};
  wish.ai_family = AF_INET6;
  wish.ai_socktype = SOCK_STREAM;
  wish.ai_flags = AI_NUMERICHOST;
  addrinfo* found = nullptr;
  if (getaddrinfo(host.c_str(), nullptr, &wish, &found) != 0) return std::nullopt;
  std::memcpy(&out.bytes, found->ai_addr, found->ai_addrlen);
  out.size = found->ai_addrlen;
  freeaddrinfo(found);
  reinterpret_cast<sockaddr_in6*>(&out.bytes)->sin6_port = htons(port);
  return out;
}

std::string host_text(const sockaddr* at, socklen_t size) {
  std::array<char, NI_MAXHOST> text{};
  const int error = getnameinfo(at, size, text.data(), text.size(), nullptr, 0, NI_NUMERICHOST);
  CHECK(error == 0, "an address without a text: {}", gai_strerror(error));
  return text.data();
}

Result<Block> parse_block(const std::string& text) {
  const size_t slash = text.find('/');
  const auto network = ipv4(std::string_view(text).substr(0, slash));
  constexpr int kNone = -1;
  const int bits = slash == std::string::npos
                       ? kNone
                       : number<int>(std::string_view(text).substr(slash + 1)).value_or(kNone);
  if (!network || bits < 0 || bits > 32) {
    return unusable(fmt::format("\"{}\" is not a network", text), "give one such as 10.77.0.0/16");
  }
  for (const Block& block : kPrivate) {
    if (block.contains(*network) && bits >= block.bits) return Block{*network, bits};
  }
  return unusable(
      fmt::format("{} is not a network for private use, and plain TCP stays here", text),
      "a part of 10.0.0.0/8, 172.16.0.0/12 or 192.168.0.0/16");
}

}  // namespace

std::string Address::text() const {
  return host.find(':') == std::string::npos ? fmt::format("{}:{}", host, port)
                                             : fmt::format("[{}]:{}", host, port);
}

Result<Address> parse_address(std::string_view text) {
  const size_t colon = text.rfind(':');
  const auto port =
      colon == std::string_view::npos ? std::nullopt : number<uint16_t>(text.substr(colon + 1));
  std::string_view host = text.substr(0, colon);
  const bool brackets = host.size() > 2 && host.front() == '[' && host.back() == ']';
  if (brackets) host = host.substr(1, host.size() - 2);
  if (!port || host.empty() || host.find_first_of("[]") != std::string_view::npos ||
      brackets != (host.find(':') != std::string_view::npos)) {
    return unusable(fmt::format("\"{}\" is not an address with a port", text),
                    "HOST:PORT, as in 127.0.0.1:29511 or [::1]:29511");
  }
  return Address{std::string(host), *port};
}

Result<PortRange> parse_ports(std::string_view text) {
  const size_t dash = text.find('-');
  const auto first = number<uint16_t>(text.substr(0, dash));
  const auto last =
      dash == std::string_view::npos ? first : number<uint16_t>(text.substr(dash + 1));
  if (!first || !last || *first == 0 || *last < *first) {
    return unusable(fmt::format("\"{}\" is no range of ports", text),
                    "FIRST-LAST, as in 29520-29529");
  }
  return PortRange{*first, *last};
}

bool is_loopback(const std::string& host) {
  if (const auto address = ipv4(host)) return kLoopback.contains(*address);
  const auto address = kernel_address(host, 0);
  if (!address) return false;
  const auto& six = reinterpret_cast<const sockaddr_in6*>(&address->bytes)->sin6_addr;
  return IN6_IS_ADDR_LOOPBACK(&six);
}

bool is_every_address(const std::string& host) {
  const auto address = kernel_address(host, 0);
  return address && host_text(address->get(), address->size) ==
                        (address->family() == AF_INET ? "0.0.0.0" : "::");
}

Status check_stays_here(const std::string& host, const std::string& network) {
  if (!kernel_address(host, 0)) {
    return unusable(fmt::format("\"{}\" is no IPv4 or IPv6 address", host),
                    "give one such as 127.0.0.1");
  }
  if (is_loopback(host)) return {};
  if (network.empty()) {
    return unusable(fmt::format("{} is outside this host, and plain TCP stays on this host", host),
                    "127.0.0.1, or credentials for both hosts: tombolo init");
  }
  const Block block = TRY(parse_block(network));
  const auto four = ipv4(host);
  if (four && block.contains(*four)) return {};
  return unusable(fmt::format("{} is outside the islands' network {}, and plain TCP stays there",
                              host, network),
                  "an address of that network, or credentials for both hosts: tombolo init");
}

bool is_address_of_this_host(const std::string& host) {
  const auto address = kernel_address(host, 0);
  if (!address) return false;
  const int fd = socket(address->family(), SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return false;
  const bool ours = bind(fd, address->get(), address->size) == 0;
  close(fd);
  return ours;
}

bool takes_connections(const Address& at, SimDuration patience) {
  // poll() waits for ever where the time is negative.
  CHECK(patience.ns >= 0 && patience.ns / 1'000'000 <= INT_MAX, "a patience of {} ns", patience.ns);
  const auto to = kernel_address(at.host, at.port);
  if (!to) return false;
  const int fd = socket(to->family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return false;
  bool taken = connect(fd, to->get(), to->size) == 0;
  if (!taken && errno == EINPROGRESS) {
    pollfd ready{.fd = fd, .events = POLLOUT, .revents = 0};
    int error = 0;
    socklen_t size = sizeof error;
    taken = poll(&ready, 1, static_cast<int>(patience.ns / 1'000'000)) == 1 &&
            getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) == 0 && error == 0;
  }
  close(fd);
  return taken;
}

Result<std::string> resolve(const std::string& host) {
  if (kernel_address(host, 0)) return host;
  addrinfo wish{};
  wish.ai_family = AF_UNSPEC;
  wish.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(host.c_str(), nullptr, &wish, &found);
  if (error != 0) {
    return unusable(
        fmt::format("\"{}\" is no host that this one knows: {}", host, gai_strerror(error)),
        "its IPv4 or IPv6 address");
  }
  // All ranks choose alike: where there is an IPv4 address, that.
  const addrinfo* chosen = found;
  for (const addrinfo* at = found; at; at = at->ai_next) {
    if (at->ai_family == AF_INET) {
      chosen = at;
      break;
    }
  }
  std::string text = host_text(chosen->ai_addr, chosen->ai_addrlen);
  freeaddrinfo(found);
  return text;
}

Result<std::string> own_address_towards(const std::string& host) {
  // "discard"; a connected datagram socket only chooses a route
  const auto to = kernel_address(host, 9);
  if (!to) return unusable(fmt::format("\"{}\" is no IPv4 or IPv6 address", host));
  const int fd = socket(to->family(), SOCK_DGRAM | SOCK_CLOEXEC, 0);
  KernelAddress from;
  from.size = sizeof from.bytes;
  const bool known = connect(fd, to->get(), to->size) == 0 &&
                     getsockname(fd, reinterpret_cast<sockaddr*>(&from.bytes), &from.size) == 0;
  close(fd);
  if (!known) return unusable(fmt::format("there is no route from this host to {}", host));
  return host_text(from.get(), from.size);
}

}  // namespace tombolo::transport
