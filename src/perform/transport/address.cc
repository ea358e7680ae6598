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

Result<Address> parse_address(std::string_view text) {
  const size_t colon = text.rfind(':');
  const auto port =
      colon == std::string_view::npos ? std::nullopt : number<uint16_t>(text.substr(colon + 1));
  const std::string_view host = text.substr(0, colon);
  if (!port || host.empty() || host.find(':') != std::string_view::npos) {
    return unusable(fmt::format("\"{}\" is not an address with a port", text),
                    "HOST:PORT, as in 127.0.0.1:29511");
  }
  return Address{std::string(host), *port};
}

Status check_stays_here(const std::string& host, const std::string& network) {
  const auto address = ipv4(host);
  if (!address) {
    return unusable(fmt::format("\"{}\" is not an IPv4 address", host),
                    "give one such as 127.0.0.1");
  }
  if (kLoopback.contains(*address)) return {};
  if (network.empty()) {
    return unusable(fmt::format("{} is outside this host, and plain TCP stays on this host", host),
                    "127.0.0.1, or credentials for both hosts: tombolo init");
  }
  const Block block = TRY(parse_block(network));
  if (block.contains(*address)) return {};
  return unusable(fmt::format("{} is outside the islands' network {}, and plain TCP stays there",
                              host, network),
                  "an address of that network, or credentials for both hosts: tombolo init");
}

bool is_address_of_this_host(const std::string& host) {
  const auto address = ipv4(host);
  if (!address) return false;
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return false;
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_addr.s_addr = htonl(*address);
  const bool ours = bind(fd, reinterpret_cast<const sockaddr*>(&at), sizeof at) == 0;
  close(fd);
  return ours;
}

bool takes_connections(const Address& at, SimDuration patience) {
  // Less than nothing would be for ever.
  CHECK(patience.ns >= 0 && patience.ns / 1'000'000 <= INT_MAX, "a patience of {} ns", patience.ns);
  const auto address = ipv4(at.host);
  if (!address) return false;
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return false;
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(at.port);
  to.sin_addr.s_addr = htonl(*address);
  bool taken = connect(fd, reinterpret_cast<const sockaddr*>(&to), sizeof to) == 0;
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
  if (ipv4(host)) return host;
  addrinfo wish{};
  wish.ai_family = AF_INET;
  wish.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(host.c_str(), nullptr, &wish, &found);
  if (error != 0)
    return unusable(
        fmt::format("\"{}\" is no host that this one knows: {}", host, gai_strerror(error)),
        "its IPv4 address");
  std::array<char, INET_ADDRSTRLEN> text{};
  sockaddr_in at{};
  std::memcpy(&at, found->ai_addr, sizeof at);
  freeaddrinfo(found);
  inet_ntop(AF_INET, &at.sin_addr, text.data(), text.size());
  return std::string(text.data());
}

Result<std::string> own_address_towards(const std::string& host) {
  const auto address = ipv4(host);
  if (!address) return unusable(fmt::format("\"{}\" is not an IPv4 address", host));
  const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  sockaddr_in to{}, from{};
  to.sin_family = AF_INET;
  to.sin_port = htons(9);  // "discard"; a connected datagram socket only chooses a route
  to.sin_addr.s_addr = htonl(*address);
  socklen_t size = sizeof from;
  const bool known = connect(fd, reinterpret_cast<const sockaddr*>(&to), sizeof to) == 0 &&
                     getsockname(fd, reinterpret_cast<sockaddr*>(&from), &size) == 0;
  close(fd);
  if (!known) return unusable(fmt::format("there is no route from this host to {}", host));
  std::array<char, INET_ADDRSTRLEN> text{};
  inet_ntop(AF_INET, &from.sin_addr, text.data(), text.size());
  return std::string(text.data());
}

}  // namespace tombolo::transport
