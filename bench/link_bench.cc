// What one link of the transport carries over the WAN it stands in, and how long an urgent message
// takes while others are queued. Runs inside emulated islands, between the first host and the last;
// bench/wan_goodput.py makes these and holds the figures against iperf3.
//
//   link_bench goodput --connections 8 --seconds 5 [--warmup 2] [--tls] [--spliced]
//                      [--congestion-control cubic]
//   link_bench goodput --connections auto --seconds 60 --warmup 0
//   link_bench urgency --connections 8 [--rounds 3] [--bulk 50] [--fifo]
//                      [--congestion-control cubic]
//
// "goodput": 1 MiB messages, always 64 MiB of them queued; what the receiver's kernel got
// per second after the warm-up (frames and TLS records included, below 0.5 %; messages would count
// whole where they end, which over seconds is some percent), and the CPU seconds of both ends, user
// and system, per GB. "urgency": --bulk messages of 1 MB are queued, and every 100 ms until they
// are gone a message of 64 KiB, more urgent; or, with --fifo, as urgent as the rest. With --bulk 0
// the link is idle, and each round has 20 of them. Its time is from send() to its last byte at the
// receiver. A round that does not count warms the connections up. With --tls both ends have
// certificates of an authority made for the occasion; with --spliced both call a door on the
// receiver's host, which joins their calls. Prints one line of JSON. Both ends live in this
// process, whose threads stand in different network namespaces.
#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <future>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "perform/transport/endpoint.h"
#include "perform/transport/splice_listener.h"
#include "perform/trust/authority.h"
#include "spec/cluster/islands.h"

using namespace tombolo;
using namespace tombolo::link;
using namespace tombolo::transport;

namespace {

constexpr SimTime kNever{INT64_MAX};
constexpr size_t kMebibyte = 1 << 20;

struct Options {
  std::string question;
  uint32_t connections = 8;
  double seconds = 5;
  double warmup = 2;
  int rounds = 3;
  uint64_t bulk = 50;  // messages of 1 MB that an urgent one overtakes
  bool fifo = false;
  bool tls = false;
  bool spliced = false;  // through a splice door beside the receiver
  bool tuned = false;    // the link chooses (link_tuner.h)
  std::string congestion_control = "cubic";
};

struct Pair {
  std::unique_ptr<SpliceListener> door;
  std::unique_ptr<Endpoint> sender, receiver;
};

// make(), whose sockets are in the host's namespace: threads inherit it where they are made.
template <typename Make>
std::invoke_result_t<Make> on(const cluster::Host& host, const Make& make) {
  auto made = std::async(std::launch::async, [&]() -> std::invoke_result_t<Make> {
    const int fd = open(host.network_namespace.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0 || setns(fd, CLONE_NEWNET) != 0) {
      if (fd >= 0) close(fd);
      return failed(fmt::format("cannot enter the network namespace of {}", host.name));
    }
    close(fd);
    return make();
  });
  return made.get();
}

Result<Pair> make_pair(const Options& options, const Clock& clock) {
  const auto islands = TRY(cluster::islands_of_environment());
  if (!islands || islands->hosts.size() < 2)
    return unusable("this program runs inside emulated islands", "bench/wan_goodput.py");
  const Token token = TRY(Token::random());
  const trust::WallTime now = trust::wall_time();
  const trust::Authority authority = TRY(trust::Authority::create(now));
  const auto made = [&](int32_t rank,
                        const cluster::Host& host) -> Result<std::unique_ptr<Endpoint>> {
    std::optional<trust::Credentials> papers;
    if (options.tls) papers = TRY(authority.issue(host.name, trust::host_validity(now)));
    Endpoint::Options end{.identity = {.rank = rank, .ranks = 2, .token = token},
                          .listen_address = host.address,
                          .network = islands->network,
                          .credentials = std::move(papers),
                          .congestion_control = options.congestion_control};
    return on(host, [&] { return Endpoint::create(std::move(end), clock); });
  };
  Pair pair;
  const cluster::Host &here = islands->hosts.front(), &there = islands->hosts.back();
  pair.sender = TRY(made(0, here));
  pair.receiver = TRY(made(1, there));
  const LinkShape shape{.slow_network = true,
                        .connections = options.connections,
                        .tune_connections = options.tuned,
                        .tune_congestion_control = options.tuned};
  const SimTime deadline = clock.now() + SimDuration{30'000'000'000};
  if (options.spliced) {
    pair.door = TRY(on(there, [&] {
      return SpliceListener::open({.listen_address = there.address,
                                   .network = islands->network,
                                   .token = token,
                                   .ranks = 2});
    }));
    const auto meet = [&](Endpoint& end, int32_t peer) {
      return end.meet(peer, there.address, pair.door->port(), shape, deadline);
    };
    auto met = std::async(std::launch::async, [&] { return meet(*pair.receiver, 0); });
    TRY(meet(*pair.sender, 1));
    TRY(met.get());
    return pair;
  }
  auto awaited =
      std::async(std::launch::async, [&] { return pair.receiver->await_peer(0, shape, deadline); });
  TRY(pair.sender->connect(1, there.address, pair.receiver->port(), shape, deadline));
  TRY(awaited.get());
  return pair;
}

struct Reading {
  SimTime at;
  uint64_t bytes = 0;    // over all connections, ever
  std::clock_t cpu = 0;  // of this process
};

Reading reading_of(Endpoint& receiver, const Clock& clock) {
  Reading reading{clock.now(), 0, std::clock()};
  for (const LinkStatistics& link : receiver.statistics())
    for (const ConnectionStatistics& one : link.connections) reading.bytes += one.received_bytes;
  return reading;
}

double mbps(const Reading& from, const Reading& to) {
  return static_cast<double>(to.bytes - from.bytes) * 8e-6 / seconds(to.at - from.at).value;
}

double cpu_seconds_per_gb(const Reading& from, const Reading& to) {
  return static_cast<double>(to.cpu - from.cpu) / CLOCKS_PER_SEC /
         (static_cast<double>(to.bytes - from.bytes) * 1e-9);
}

Status goodput(const Options& options, Clock& clock) {
  Pair pair = TRY(make_pair(options, clock));
  const auto span = [&](double s) { return round_to_ns(Seconds{s}); };
  const SimTime begin = clock.now() + span(options.warmup);
  const SimTime middle = begin + span(options.seconds / 2);
  const SimTime end = begin + span(options.seconds);
  std::atomic<uint64_t> said{UINT64_MAX};  // messages; known at the end
  auto receiving = std::async(std::launch::async, [&]() -> Status {
    for (uint64_t i = 0; i < said; ++i) TRY(pair.receiver->receive(0, {1, i}, kNever));
    return {};
  });
  // One at least, so that a connection is measured that was used.
  std::vector<Reading> readings;
  uint64_t i = 0;
  for (const SimTime wanted : {begin, middle, end}) {
    while (i == 0 || clock.now() < wanted) {
      if (pair.sender->queued_bytes() < 64 * kMebibyte)
        TRY(pair.sender->send(1, {1, i++}, Payload(kMebibyte)));
      else
        clock.sleep_until(std::min(wanted, clock.now() + SimDuration{2'000'000}));
    }
    readings.push_back(reading_of(*pair.receiver, clock));
  }
  said = i;
  TRY(pair.sender->send(1, {1, i}, Payload(1)));  // wakes who waits for one too many
  const std::vector<LinkStatistics> links = pair.sender->statistics();
  TRY(receiving.get());
  const std::string reason = links.empty() ? "" : links[0].reason;
  fmt::print(
      "{{\"connections\":{},\"payload_mbps\":{:.2f},\"steady_mbps\":{:.2f},"
      "\"cpu_s_per_gb\":{:.3f},\"pulling\":{},\"congestion_control\":\"{}\",\"reason\":\"{}\"}}\n",
      options.connections, mbps(readings[0], readings[2]), mbps(readings[1], readings[2]),
      cpu_seconds_per_gb(readings[0], readings[2]), links.empty() ? 0 : links[0].pulling(),
      links.empty() ? "" : links[0].connections[0].congestion_control, reason);
  return {};
}

// Milliseconds of every urgent message of a round.
Result<std::vector<double>> urgent_times(const Options& options, Pair& pair, uint64_t round,
                                         Clock& clock) {
  const uint64_t urgent_from = options.bulk;  // numbers behind those of the bulk
  constexpr size_t kOnIdleLink = 20;
  const auto iteration = round + 1;
  for (uint64_t i = 0; i < options.bulk; ++i)
    TRY(pair.sender->send(1, {iteration, i}, Payload(1'000'000), 1));
  std::vector<SimTime> sent;
  const auto more = [&] {
    return options.bulk ? pair.sender->queued_bytes() > 1'000'000 : sent.size() < kOnIdleLink;
  };
  while (more()) {
    sent.push_back(clock.now());
    TRY(pair.sender->send(1, {iteration, urgent_from + sent.size()}, Payload(64 * 1024),
                          options.fifo ? 1 : 0));
    clock.sleep_until(sent.back() + SimDuration{100'000'000});
  }
  std::vector<double> times;
  for (uint64_t i = 0; i < sent.size(); ++i) {
    const auto received = TRY(pair.receiver->receive(0, {iteration, urgent_from + i + 1}, kNever));
    times.push_back(seconds(received.delivered - sent[i]).value * 1e3);
  }
  for (uint64_t i = 0; i < options.bulk; ++i)
    TRY(pair.receiver->receive(0, {iteration, i}, kNever));
  return times;
}

Status urgency(const Options& options, Clock& clock) {
  Pair pair = TRY(make_pair(options, clock));
  std::vector<double> all;
  for (int round = 0; round <= options.rounds; ++round) {
    const auto times = TRY(urgent_times(options, pair, static_cast<uint64_t>(round), clock));
    if (round > 0) all.insert(all.end(), times.begin(), times.end());
  }
  std::sort(all.begin(), all.end());
  fmt::print(
      "{{\"connections\":{},\"fifo\":{},\"messages\":{},\"median_ms\":{:.2f},\"p95_ms\":{:.2f},"
      "\"max_ms\":{:.2f}}}\n",
      options.connections, options.fifo, all.size(), all[all.size() / 2],
      all[(all.size() * 95 - 1) / 100], all.back());
  return {};
}

Result<Options> parse(int argc, char** argv) {
  Options options;
  const std::vector<std::string> words(argv + 1, argv + argc);
  if (!words.empty()) options.question = words[0];
  for (size_t i = 1; i < words.size(); ++i) {
    if (words[i] == "--fifo" || words[i] == "--tls" || words[i] == "--spliced") {
      (words[i] == "--tls"    ? options.tls
       : words[i] == "--fifo" ? options.fifo
                              : options.spliced) = true;
      continue;
    }
    if (i + 1 == words.size()) return unusable(words[i] + " needs a value");
    const std::string& value = words[++i];
    if (words[i - 1] == "--connections") {
      options.tuned = value == "auto";
      options.connections = options.tuned
                                ? kConnectionsMax
                                : static_cast<uint32_t>(std::strtoul(value.c_str(), nullptr, 10));
    } else if (words[i - 1] == "--seconds") {
      options.seconds = std::strtod(value.c_str(), nullptr);
    } else if (words[i - 1] == "--warmup") {
      options.warmup = std::strtod(value.c_str(), nullptr);
    } else if (words[i - 1] == "--rounds") {
      options.rounds = static_cast<int>(std::strtol(value.c_str(), nullptr, 10));
    } else if (words[i - 1] == "--bulk") {
      options.bulk = std::strtoul(value.c_str(), nullptr, 10);
    } else if (words[i - 1] == "--congestion-control") {
      options.congestion_control = value;
    } else {
      return unusable("unknown option " + words[i - 1]);
    }
  }
  if (options.question != "goodput" && options.question != "urgency")
    return unusable("link_bench answers two questions: goodput, urgency");
  return options;
}

Status run(int argc, char** argv) {
  const Options options = TRY(parse(argc, argv));
  SystemClock clock;
  return options.question == "goodput" ? goodput(options, clock) : urgency(options, clock);
}

}  // namespace

int main(int argc, char** argv) {
  const Status status = run(argc, argv);
  if (!status) std::fprintf(stderr, "%s\n", status.error().text().c_str());
  std::fflush(stdout);
  _exit(status ? 0 : status.error().exit_code());  // a sender may still have a full queue
}
