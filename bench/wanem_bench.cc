// How much can one forwarding thread of the WAN emulator carry?
//
//   wanem_bench [--seconds S] [--priority P]      five repeats of S seconds, S = 2
//
// And does it obey its laws? Two hosts have network namespaces of their own; all between them goes
// through the emulator, whose thread is real-time where a priority is given. Prints a JSON line per
// question with the median and the spread (max - min) of the repeats. Needs root.
//
// Questions "carry": one TCP connection. "per core" is what was carried divided by the forwarding
// thread's CPU time, which contains the receiver's TCP, since the kernel runs it when the thread
// writes to the device; it does not depend on how many cores sender and receiver find for
// themselves. The bytes are counted on both ends, and for the first megabytes compared.
// "round_trip": small UDP packets there and back, against twice the delay. "rate": a queue of UDP
// packets that drains; IP bytes over the time between the kernel's stamps on the first and the
// last, against the rate. These two ask for a real-time priority for their own threads as well.
//
// Sketch for a 64 KiB frame: the kernel copies it to the thread and back, 2 x 6 us at 10 GB/s; two
// system calls, the receiver's TCP and its acknowledgements, some 10 us: 64 KiB / 22 us = 24 Gbps.
#include <fcntl.h>
#include <sys/utsname.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <tuple>
#include <vector>

#include "base/clock.h"
#include "lab/wanem/forwarder.h"
#include "support/tun_host.h"

using namespace tombolo;
using namespace tombolo::wanem;
using tombolo::test::socket_address;
using tombolo::test::TunHost;

namespace {

constexpr int kRepeats = 5;
constexpr uint32_t kSender = 0x0a4e0101, kReceiver = 0x0a4e0201;  // 10.78.1.1 and 10.78.2.1
constexpr uint64_t kCompared = 8 << 20;
constexpr int kBuffer = 64 << 20;

struct Options {
  Seconds time = 2_s;
  ForwarderOptions forwarder;
};

struct Sample {
  double gbps, gbps_per_core, late_p99_us;
};

// What stands at a place of the stream.
uint8_t byte_at(uint64_t position) { return static_cast<uint8_t>(position * 2654435761u >> 24); }

// The hosts and what lies between them.
struct Net {
  TunHost sender, receiver;
  std::unique_ptr<Forwarder> forwarder;

  static Result<Net> make(const LinkShape& shape, const ForwarderOptions& options) {
    Net net{TRY(TunHost::make(kSender)), TRY(TunHost::make(kReceiver)), nullptr};
    for (const TunHost* host : {&net.sender, &net.receiver}) {
      host->set("tcp_min_tso_segs", "40");
      host->set("tcp_rmem", "4096 131072 134217728");
      host->set("tcp_wmem", "4096 131072 134217728");
    }
    net.forwarder = TRY(Forwarder::start(
        {{net.sender.tun_fd(), kSender, 0, "a-0"}, {net.receiver.tun_fd(), kReceiver, 1, "b-0"}},
        {{"a", "b"}, {{0, 1, shape}, {1, 0, shape}}}, options));
    return net;
  }
  double late_p99_us() const {
    double late = 0;
    for (const LinkCounters& link : forwarder->counters()) {
      late = std::max(late, static_cast<double>(link.lateness_p99.ns) * 1e-3);
    }
    return late;
  }
};

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

Result<Sample> carry(const LinkShape& shape, const Options& options) {
  const Net net = TRY(Net::make(shape, options.forwarder));
  const Forwarder& forwarder = *net.forwarder;
  const auto [out, in] = TRY(connect_hosts(net.sender, net.receiver));

  SystemClock clock;
  std::vector<uint8_t> pattern(kCompared);
  for (uint64_t i = 0; i < kCompared; ++i) pattern[i] = byte_at(i);
  uint64_t sent = 0, got = 0;
  bool equal = true;
  const SimTime before = clock.now();
  const SimTime end = before + round_to_ns(options.time);
  const Seconds cpu_before = forwarder.report().cpu;
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
  const Seconds cpu = forwarder.report().cpu - cpu_before;
  if (!equal) return failed("bytes came back changed");
  if (got != sent) return failed(fmt::format("{} bytes sent, {} received", sent, got));
  const double gigabits = static_cast<double>(got) * 8e-9;
  return Sample{gigabits / wall.value, gigabits / cpu.value, net.late_p99_us()};
}

struct Spread {
  double median, spread;
};
Spread spread(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return {values[values.size() / 2], values.back() - values.front()};
}

Status ask_carry(const char* name, const LinkShape& shape, const Options& options,
                 const std::string& machine) {
  std::vector<double> gbps, per_core, late;
  for (int repeat = 0; repeat < kRepeats; ++repeat) {
    const Sample sample = TRY(carry(shape, options));
    gbps.push_back(sample.gbps);
    per_core.push_back(sample.gbps_per_core);
    late.push_back(sample.late_p99_us);
  }
  const Spread g = spread(gbps), c = spread(per_core);
  fmt::print(
      "{{\"bench\":\"wanem\",\"question\":\"carry, {}\",\"gbps\":{:.2f},\"spread_gbps\":{:.2f},"
      "\"gbps_per_core\":{:.2f},\"spread_gbps_per_core\":{:.2f},\"late_p99_us\":{:.0f},"
      "\"checked\":true,{}}}\n",
      name, g.median, g.spread, c.median, c.spread, spread(late).median, machine);
  std::fflush(stdout);
  return {};
}

// A UDP socket at each host, bound to port 5202, that gives up after a second.
Result<std::pair<int, int>> packet_sockets(const Net& net) {
  const int out = net.sender.socket_inside(SOCK_DGRAM), in = net.receiver.socket_inside(SOCK_DGRAM);
  const timeval patience{.tv_sec = 1, .tv_usec = 0};
  for (const auto& [fd, own, peer] :
       {std::tuple(out, kSender, kReceiver), {in, kReceiver, kSender}}) {
    const sockaddr_in here = socket_address(own, 5202), there = socket_address(peer, 5202);
    setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &kBuffer, sizeof kBuffer);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    if (bind(fd, reinterpret_cast<const sockaddr*>(&here), sizeof here) != 0 ||
        connect(fd, reinterpret_cast<const sockaddr*>(&there), sizeof there) != 0) {
      return failed(fmt::format("cannot connect: {}", std::strerror(errno)));
    }
  }
  return std::pair{out, in};
}

Status ask_round_trip(SimDuration delay, const Options& options, const std::string& machine) {
  const Net net = TRY(Net::make({.delay = delay, .node_pair_rate = 5_Gbps}, options.forwarder));
  const auto [out, in] = TRY(packet_sockets(net));
  SystemClock clock;
  std::thread answering([in = in] {
    char byte;
    while (recv(in, &byte, 1, 0) == 1 && byte != 0) (void)!write(in, &byte, 1);
  });
  std::vector<double> over_us;
  for (int i = 0; i < 200; ++i) {
    char byte = 1;
    const SimTime before = clock.now();
    if (write(out, &byte, 1) != 1 || recv(out, &byte, 1, 0) != 1) break;
    over_us.push_back(static_cast<double>((clock.now() - before - delay * 2).ns) * 1e-3);
  }
  (void)!write(out, "", 1);
  answering.join();
  for (const int fd : {out, in}) close(fd);
  if (over_us.size() < 200) return failed("an answer did not come");
  std::sort(over_us.begin(), over_us.end());
  fmt::print(
      "{{\"bench\":\"wanem\",\"question\":\"round_trip\",\"one_way_ms\":{},\"over_us_min\":{:.0f},"
      "\"over_us_median\":{:.0f},\"over_us_p99\":{:.0f},{}}}\n",
      delay.ns / 1'000'000, over_us[0], over_us[100], over_us[198], machine);
  std::fflush(stdout);
  return {};
}

// When the kernel took the packet from the emulator, in ns; negative where none came.
int64_t receive_stamp(int fd) {
  char payload[2048], control[256];
  iovec part{payload, sizeof payload};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  if (recvmsg(fd, &message, 0) <= 0) return -1;
  timespec stamp{};
  for (cmsghdr* c = CMSG_FIRSTHDR(&message); c; c = CMSG_NXTHDR(&message, c)) {
    if (c->cmsg_type == SCM_TIMESTAMPNS) std::memcpy(&stamp, CMSG_DATA(c), sizeof stamp);
  }
  return stamp.tv_sec * 1'000'000'000 + stamp.tv_nsec;
}

// Fills the queue at once and lets it drain.
Result<double> measured_rate(BytesPerSecond rate, const Options& options) {
  const LinkShape shape{
      .delay = {10'000'000}, .node_pair_rate = rate, .queue = rate * options.time};
  const Net net = TRY(Net::make(shape, options.forwarder));
  const auto [out, in] = TRY(packet_sockets(net));
  const int on = 1;
  setsockopt(in, SOL_SOCKET, SO_TIMESTAMPNS, &on, sizeof on);
  const std::vector<uint8_t> packet(1472);  // with its headers 1500 bytes
  const int count = static_cast<int>(*shape.queue / 1500_B);
  std::thread sending([&, out = out] {
    for (int i = 0; i < count; ++i) {
      (void)!write(out, packet.data(), packet.size());
      if (i % 64 == 63) std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
  });
  int64_t first = -1, last = -1, received = 0;
  for (int64_t stamp; (stamp = receive_stamp(in)) >= 0; ++received) {
    if (first < 0) first = stamp;
    last = stamp;
  }
  sending.join();
  for (const int fd : {out, in}) close(fd);
  if (received < count / 2) return failed(fmt::format("{} of {} arrived", received, count));
  return static_cast<double>(received - 1) * 1500 / (static_cast<double>(last - first) * 1e-9);
}

Status ask_rate(BytesPerSecond rate, const Options& options, const std::string& machine) {
  std::vector<double> error;
  for (int i = 0; i < kRepeats; ++i) {
    error.push_back(TRY(measured_rate(rate, options)) / rate.value - 1);
  }
  fmt::print(
      "{{\"bench\":\"wanem\",\"question\":\"rate\",\"rate\":\"{}\",\"relative_error\":{:.5f},"
      "\"spread\":{:.5f},{}}}\n",
      format(rate), spread(error).median, spread(error).spread, machine);
  std::fflush(stdout);
  return {};
}

// This thread and those that it starts; a Forwarder sets its own.
void set_priority(int priority) {
  sched_param parameters{};
  parameters.sched_priority = priority;
  sched_setscheduler(0, priority > 0 ? SCHED_FIFO : SCHED_OTHER, &parameters);
}

Status run(const Options& options) {
  utsname host{};
  uname(&host);
  const std::string machine =
      fmt::format("\"priority\":{},\"cores\":{},\"kernel\":\"{}\",\"machine\":\"{}\"",
                  options.forwarder.realtime_priority, std::thread::hardware_concurrency(),
                  host.release, host.machine);
  const SimDuration ms{1'000'000};
  TRY(ask_carry("unlimited", {}, options, machine));
  TRY(ask_carry("20 Gbps 5 ms", {.delay = ms * 5, .node_pair_rate = 20_Gbps}, options, machine));
  set_priority(std::max(0, options.forwarder.realtime_priority - 1));
  for (const int64_t delay : {10, 40, 150}) TRY(ask_round_trip(ms * delay, options, machine));
  for (const BytesPerSecond rate : {10_Mbps, 250_Mbps}) TRY(ask_rate(rate, options, machine));
  return {};
}

}  // namespace

int main(int count, char** arguments) {
  Options options;
  for (int i = 1; i + 1 < count; i += 2) {
    const std::string name = arguments[i];
    if (name == "--seconds") options.time = Seconds{std::atof(arguments[i + 1])};
    if (name == "--priority") options.forwarder.realtime_priority = std::atoi(arguments[i + 1]);
  }
  if (const Status status = run(options); !status) {
    std::fprintf(stderr, "%s\n", status.error().text().c_str());
    return status.error().exit_code();
  }
}
