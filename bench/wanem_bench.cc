// How much can one forwarding thread of the WAN emulator carry?
//
//   wanem_bench [--seconds S]      five repeats of S seconds, S = 2
//
// Two hosts in network namespaces of their own, one TCP connection from one to the other, all
// through the emulator. Prints a JSON line per question with the median and the spread (max - min)
// of the repeats. "per core" is what was carried divided by the forwarding thread's CPU time, which
// contains the receiver's TCP, since the kernel runs it when the thread writes to the device; it
// does not depend on how many cores sender and receiver find for themselves. The bytes are counted
// on both ends, and for the first megabytes compared.
//
// Sketch for a 64 KiB frame: the kernel copies it to the thread and back, 2 x 6 us at 10 GB/s; two
// system calls, the receiver's TCP and its acknowledgements, some 10 us: 64 KiB / 22 us = 24 Gbps.
#include <fcntl.h>
#include <sys/utsname.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "support/tun_host.h"
#include "wanem/forwarder.h"

using namespace tombolo;
using namespace tombolo::wanem;
using tombolo::test::socket_address;
using tombolo::test::TunHost;

namespace {

constexpr int kRepeats = 5;
constexpr uint32_t kSender = 0x0a4e0101, kReceiver = 0x0a4e0201;  // 10.78.1.1 and 10.78.2.1
constexpr uint64_t kCompared = 8 << 20;
constexpr int kBuffer = 64 << 20;

struct Question {
  const char* name;
  LinkShape shape;
};

struct Sample {
  double gbps, gbps_per_core, late_p99_us;
};

// What stands at a place of the stream.
uint8_t byte_at(uint64_t position) { return static_cast<uint8_t>(position * 2654435761u >> 24); }

// A connection through the WAN: first what the sender holds, then the receiver.
Result<std::pair<int, int>> connect_hosts(const TunHost& sender, const TunHost& receiver) {
  const int door = receiver.socket_inside(SOCK_STREAM);
  const int out = sender.socket_inside(SOCK_STREAM);
  for (const int fd : {door, out}) {
    setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &kBuffer, sizeof kBuffer);
    setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &kBuffer, sizeof kBuffer);
  }
  const sockaddr_in there = socket_address(kReceiver, 5201);
  const auto* address = reinterpret_cast<const sockaddr*>(&there);
  if (bind(door, address, sizeof there) != 0 || listen(door, 1) != 0 ||
      connect(out, address, sizeof there) != 0) {
    return failed(fmt::format("cannot connect: {}", std::strerror(errno)));
  }
  const int in = accept4(door, nullptr, nullptr, SOCK_CLOEXEC);
  close(door);
  return std::pair{out, in};
}

Result<Sample> carry(const LinkShape& shape, Seconds time) {
  const TunHost sender = TRY(TunHost::make(kSender));
  const TunHost receiver = TRY(TunHost::make(kReceiver));
  for (const TunHost* host : {&sender, &receiver}) {
    host->set("tcp_min_tso_segs", "40");
    host->set("tcp_rmem", "4096 131072 134217728");
    host->set("tcp_wmem", "4096 131072 134217728");
  }
  const Scenario scenario{{"a", "b"}, {{0, 1, shape}, {1, 0, shape}}};
  auto forwarder = TRY(Forwarder::start(
      {{sender.tun_fd(), kSender, 0, "a-0"}, {receiver.tun_fd(), kReceiver, 1, "b-0"}}, scenario,
      {}));
  const auto [out, in] = TRY(connect_hosts(sender, receiver));

  SystemClock clock;
  std::vector<uint8_t> pattern(kCompared);
  for (uint64_t i = 0; i < kCompared; ++i) pattern[i] = byte_at(i);
  uint64_t sent = 0, got = 0;
  bool equal = true;
  const SimTime before = clock.now();
  const SimTime end = before + round_to_ns(time);
  const Seconds cpu_before = forwarder->report().cpu;
  std::thread sending([&, out = out] {
    while (clock.now() < end) {
      const uint64_t at = sent % kCompared;
      const ssize_t n = write(out, &pattern[at], std::min<uint64_t>(1 << 18, kCompared - at));
      if (n <= 0) break;
      sent += static_cast<uint64_t>(n);
    }
    close(out);
  });
  std::vector<uint8_t> buffer(1 << 20);
  for (;;) {
    // Once enough is compared, MSG_TRUNC counts the bytes without copying them.
    const bool compare = got < kCompared;
    const ssize_t n = recv(in, buffer.data(), buffer.size(), compare ? 0 : MSG_TRUNC);
    if (n <= 0) break;
    for (ssize_t i = 0; compare && i < n; ++i) {
      equal = equal && buffer[static_cast<size_t>(i)] ==
                           pattern[(got + static_cast<uint64_t>(i)) % kCompared];
    }
    got += static_cast<uint64_t>(n);
  }
  sending.join();
  close(in);
  const Seconds wall = seconds(clock.now() - before);
  const Seconds cpu = forwarder->report().cpu - cpu_before;
  if (!equal) return failed("bytes came back changed");
  if (got != sent) return failed(fmt::format("{} bytes sent, {} received", sent, got));
  double late = 0;
  for (const LinkCounters& link : forwarder->counters()) {
    late = std::max(late, static_cast<double>(link.lateness_p99.ns) * 1e-3);
    if (std::getenv("WANEM_BENCH_VERBOSE")) fmt::print(stderr, "{}\n", link.brief());
  }
  const double gigabits = static_cast<double>(got) * 8e-9;
  return Sample{gigabits / wall.value, gigabits / cpu.value, late};
}

Status ask(const Question& question, Seconds time, const std::string& machine) {
  std::vector<double> gbps, per_core, late;
  for (int repeat = 0; repeat < kRepeats; ++repeat) {
    const Sample sample = TRY(carry(question.shape, time));
    gbps.push_back(sample.gbps);
    per_core.push_back(sample.gbps_per_core);
    late.push_back(sample.late_p99_us);
  }
  for (auto* values : {&gbps, &per_core, &late}) std::sort(values->begin(), values->end());
  fmt::print(
      "{{\"bench\":\"wanem\",\"question\":\"{}\",\"gbps\":{:.2f},\"spread_gbps\":{:.2f},"
      "\"gbps_per_core\":{:.2f},\"spread_gbps_per_core\":{:.2f},\"late_p99_us\":{:.0f},"
      "\"checked\":true,{}}}\n",
      question.name, gbps[kRepeats / 2], gbps.back() - gbps.front(), per_core[kRepeats / 2],
      per_core.back() - per_core.front(), late[kRepeats / 2], machine);
  std::fflush(stdout);
  return {};
}

Status run(Seconds time) {
  utsname host{};
  uname(&host);
  const std::string machine =
      fmt::format("\"cores\":{},\"kernel\":\"{}\",\"machine\":\"{}\"",
                  std::thread::hardware_concurrency(), host.release, host.machine);
  const SimDuration ms{1'000'000};
  TRY(ask({"unlimited", {}}, time, machine));
  TRY(ask({"5 ms, 20 Gbps", {.delay = ms * 5, .node_pair_rate = 20_Gbps}}, time, machine));
  TRY(ask({"5 ms, 1 Gbps", {.delay = ms * 5, .node_pair_rate = 1_Gbps}}, time, machine));
  return {};
}

}  // namespace

int main(int count, char** arguments) {
  double time = 2;
  if (count == 3 && std::string(arguments[1]) == "--seconds") time = std::atof(arguments[2]);
  if (const Status status = run(Seconds{time}); !status) {
    std::fprintf(stderr, "%s\n", status.error().text().c_str());
    return status.error().exit_code();
  }
}
