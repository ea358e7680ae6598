// The forwarding thread between real TUN devices: the kernel's TCP accepts what it cuts.
//
// Needs root and /dev/net/tun; skipped where they are missing.
#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/random.h"
#include "lab/wanem/forwarder.h"
#include "support/tun_host.h"

namespace tombolo::wanem {
namespace {

using test::socket_address;
using test::TunHost;

constexpr uint32_t kSender = 0x0a4e0101, kReceiver = 0x0a4e0201;  // 10.78.1.1 and 10.78.2.1

struct TunNet {
  Result<TunHost> sender = TunHost::make(kSender);
  Result<TunHost> receiver = TunHost::make(kReceiver);
  std::unique_ptr<Forwarder> forwarder;

  std::string why_not() const {
    return sender ? receiver ? "" : receiver.error().text() : sender.error().text();
  }
  Status start(const LinkShape& shape) {
    forwarder = TRY(Forwarder::start(
        {{sender->tun_fd(), kSender, 0, "a-0"}, {receiver->tun_fd(), kReceiver, 1, "b-0"}},
        {{"a", "b"}, {{0, 1, shape}, {1, 0, shape}}}, {}));
    return {};
  }
};

struct Carried {
  std::vector<uint8_t> bytes;
  SimDuration time;  // from the first write to the last read
};

Carried carry(const TunNet& net, const std::vector<uint8_t>& bytes) {
  const int door = net.receiver->socket_inside(SOCK_STREAM);
  const int out = net.sender->socket_inside(SOCK_STREAM);
  const sockaddr_in there = socket_address(kReceiver, 5201);
  const auto* address = reinterpret_cast<const sockaddr*>(&there);
  EXPECT_EQ(bind(door, address, sizeof there), 0);
  EXPECT_EQ(listen(door, 1), 0);
  EXPECT_EQ(connect(out, address, sizeof there), 0) << std::strerror(errno);
  const int in = accept4(door, nullptr, nullptr, SOCK_CLOEXEC);
  SystemClock clock;
  const SimTime before = clock.now();
  std::thread sending([&] {
    for (size_t at = 0; at < bytes.size();) {
      const ssize_t n = write(out, &bytes[at], bytes.size() - at);
      if (n <= 0) break;
      at += static_cast<size_t>(n);
    }
    shutdown(out, SHUT_WR);
  });
  Carried carried;
  std::vector<uint8_t> buffer(1 << 18);
  for (ssize_t n; (n = read(in, buffer.data(), buffer.size())) > 0;) {
    carried.bytes.insert(carried.bytes.end(), buffer.begin(), buffer.begin() + n);
  }
  carried.time = clock.now() - before;
  sending.join();
  for (const int fd : {door, out, in}) close(fd);
  return carried;
}

std::vector<uint8_t> random_bytes(size_t count) {
  Random random(1);
  std::vector<uint8_t> out(count);
  for (uint8_t& byte : out) byte = static_cast<uint8_t>(random.next());
  return out;
}

TEST(WanemTun, TcpSurvivesLossesWithItsBytesInOrder) {
  TunNet net;
  if (!net.why_not().empty()) GTEST_SKIP() << net.why_not();
  const Status started = net.start({.delay = {1'000'000}, .loss = 0.01, .loss_burst = 2});
  ASSERT_TRUE(started) << started.error().text();
  const auto bytes = random_bytes(10'000'000);
  EXPECT_EQ(carry(net, bytes).bytes, bytes);
  const auto counters = net.forwarder->counters();
  ASSERT_EQ(counters.size(), 2u);
  EXPECT_GT(counters[0].dropped_by_loss, 0u);
  EXPECT_LT(counters[0].frames * 2, counters[0].segments) << "large frames were passed whole";
  EXPECT_EQ(counters[0].writes_failed, 0u) << "the kernel takes every slice";
  EXPECT_EQ(net.forwarder->report().frames_broken, 0u);
}

TEST(WanemTun, TcpIsNotFasterThanTheLink) {
  TunNet net;
  if (!net.why_not().empty()) GTEST_SKIP() << net.why_not();
  const Status started =
      net.start({.delay = {5'000'000}, .node_pair_rate = 200_Mbps, .queue = 100_KB});
  ASSERT_TRUE(started) << started.error().text();
  const auto bytes = random_bytes(5'000'000);
  const Carried carried = carry(net, bytes);
  EXPECT_EQ(carried.bytes, bytes);
  // 25 MB/s: 5 MB take 200 ms without their headers, and 5 ms until the last has arrived.
  EXPECT_GE(carried.time, SimDuration{205'000'000});
  const auto counters = net.forwarder->counters();
  EXPECT_GT(counters.at(0).dropped_by_queue, 0u) << "TCP fills any queue";
}

}  // namespace
}  // namespace tombolo::wanem
