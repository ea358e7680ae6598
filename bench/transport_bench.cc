// How fast is the transport, and does a paced link obey its law?
//
//   transport_bench             five repeats of everything, about 20 s
//
// Prints a JSON line per question with the median and the spread (max - min) of the repeats. Every
// payload is compared with what was sent. "cpu_s_per_gb" is the CPU time of both ends, user and
// system, from the first send to the return of the last receive. Both ranks live in this process,
// with a thread each.
//
// Sketch: per byte, the sender reads once (checksum) and copies into the kernel; the receiver
// copies out of the kernel, reads once and copies into the message: about 3 writes and 5 reads of
// memory, at 10 GB/s or so of one core's copying 20 to 40 Gbit/s when sender and receiver have a
// core each.
#include <sys/utsname.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <functional>
#include <future>
#include <thread>

#include "base/clock.h"
#include "base/random.h"
#include "perform/transport/endpoint.h"
#include "perform/trust/authority.h"

using namespace tombolo;
using namespace tombolo::link;
using namespace tombolo::transport;

namespace {

constexpr int kRepeats = 5;

struct Pair {
  std::unique_ptr<Endpoint> sender;
  std::unique_ptr<Endpoint> receiver;
};

SimTime soon(const Clock& clock) { return clock.now() + SimDuration{60'000'000'000}; }

Result<Pair> make_pair(const Clock& clock, const LinkShape& shape, bool tls = false) {
  const Token token = TRY(Token::random());
  const trust::WallTime now = trust::wall_time();
  const trust::Authority authority = TRY(trust::Authority::create(now));
  const auto made = [&](int32_t rank) -> Result<std::unique_ptr<Endpoint>> {
    std::optional<trust::Credentials> papers;
    if (tls) papers = TRY(authority.issue("here", trust::host_validity(now)));
    return Endpoint::create(
        {.identity = {.rank = rank, .ranks = 2, .token = token}, .credentials = std::move(papers)},
        clock);
  };
  Pair pair;
  pair.sender = TRY(made(0));
  pair.receiver = TRY(made(1));
  TRY(pair.receiver->connect(0, "127.0.0.1", pair.sender->port(), shape, soon(clock)));
  TRY(pair.sender->await_peer(1, shape, soon(clock)));
  return pair;
}

struct Sample {
  Seconds wall;              // from the first send to the return of the last receive
  std::vector<double> late;  // per message: return of receive after the law's instant, us
  double wait_us = 0;        // the last message's delivery stamp after the law's instant
  double cpu_s = 0;          // of this process, both ends, within `wall`
};

// `count` messages, all queued at once; the law is the one of docs/laws/wan_pacing.md.
Result<Sample> burst(const Clock& clock, Pair& pair, const LinkShape& shape, const Payload& payload,
                     uint64_t count, uint64_t iteration) {
  std::vector<Payload> copies(count, payload);
  const std::clock_t cpu_before = std::clock();
  const SimTime before = clock.now();
  for (uint64_t i = 0; i < count; ++i)
    TRY(pair.sender->send(1, {iteration, i}, std::move(copies[i])));
  Sample sample;
  SimTime first;
  std::vector<Received> all;
  for (uint64_t i = 0; i < count; ++i) {
    all.push_back(TRY(pair.receiver->receive(0, {iteration, i}, soon(clock))));
    const SimTime now = clock.now();
    sample.wall = seconds(now - before);
    if (i == 0) first = all[0].sent_start;
    const Bytes sent{static_cast<double>((i + 1) * payload.size())};
    const SimTime law =
        first + (shape.rate ? round_to_ns(sent / *shape.rate) : SimDuration{}) + shape.delay;
    sample.late.push_back(static_cast<double>((now - law).ns) * 1e-3);
    sample.wait_us = static_cast<double>((all.back().delivered - law).ns) * 1e-3;
  }
  sample.cpu_s = static_cast<double>(std::clock() - cpu_before) / CLOCKS_PER_SEC;
  for (const Received& received : all)
    if (received.payload != payload) return failed("a payload came back changed");
  return sample;
}

struct Spread {
  double median, spread;
};
Spread spread(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return {values[values.size() / 2], values.back() - values.front()};
}

Status unpaced(const Clock& clock, uint64_t bytes, const std::string& machine) {
  Pair pair = TRY(make_pair(clock, {}));
  const Payload payload(bytes, std::byte{42});
  const uint64_t count = std::max<uint64_t>(4, (uint64_t{256} << 20) / bytes);
  std::vector<double> gbps, cpu;
  for (int repeat = 0; repeat <= kRepeats; ++repeat) {
    const Sample sample = TRY(burst(clock, pair, {}, payload, count, repeat));
    if (repeat == 0) continue;  // it warms up
    const double gb = static_cast<double>(count * bytes) * 1e-9;
    gbps.push_back(gb * 8 / sample.wall.value);
    cpu.push_back(sample.cpu_s / gb);
  }
  const Spread g = spread(gbps);
  fmt::print(
      "{{\"bench\":\"unpaced\",\"message_bytes\":{},\"messages\":{},\"gbps\":{:.2f},"
      "\"spread_gbps\":{:.2f},\"cpu_s_per_gb\":{:.3f},\"checked\":true,{}}}\n",
      bytes, count, g.median, g.spread, spread(cpu).median, machine);
  TRY(pair.sender->close(soon(clock)));
  return {};
}

// Plain and TLS take turns, so that the machine is as busy for one as for the other.
Status secured(const Clock& clock, uint64_t bytes, const std::string& machine) {
  Pair pairs[] = {TRY(make_pair(clock, {})), TRY(make_pair(clock, {}, true))};
  const Payload payload(bytes, std::byte{42});
  const uint64_t count = std::max<uint64_t>(4, (uint64_t{256} << 20) / bytes);
  std::vector<double> gbps[2], cpu[2];
  for (int repeat = 0; repeat <= kRepeats; ++repeat) {
    for (int i = 0; i < 2; ++i) {
      const Sample sample = TRY(burst(clock, pairs[i], {}, payload, count, repeat));
      if (repeat == 0) continue;
      const double gb = static_cast<double>(count * bytes) * 1e-9;
      gbps[i].push_back(gb * 8 / sample.wall.value);
      cpu[i].push_back(sample.cpu_s / gb);
    }
  }
  const double plain = spread(gbps[0]).median, tls = spread(gbps[1]).median;
  fmt::print(
      "{{\"bench\":\"secured\",\"message_bytes\":{},\"plain_gbps\":{:.2f},\"tls_gbps\":{:.2f},"
      "\"ratio\":{:.3f},\"plain_cpu_s_per_gb\":{:.3f},\"tls_cpu_s_per_gb\":{:.3f},"
      "\"checked\":true,{}}}\n",
      bytes, plain, tls, tls / plain, spread(cpu[0]).median, spread(cpu[1]).median, machine);
  for (Pair& pair : pairs) TRY(pair.sender->close(soon(clock)));
  return {};
}

Status paced(const Clock& clock, uint64_t bytes, uint64_t count, const std::string& machine) {
  const LinkShape shape{.rate = 1_Gbps, .delay = round_to_ns(20_ms)};
  Pair pair = TRY(make_pair(clock, shape));
  Random random(1);
  Payload payload(bytes);
  for (std::byte& b : payload) b = static_cast<std::byte>(random.next());
  std::vector<double> rate, stamp, late, wall_error;
  for (int repeat = 0; repeat < kRepeats; ++repeat) {
    const Sample sample = TRY(burst(clock, pair, shape, payload, count, repeat));
    const Seconds law =
        Bytes{static_cast<double>(bytes * count)} / *shape.rate + seconds(shape.delay);
    const Seconds serialising = sample.wall - seconds(shape.delay);
    rate.push_back(static_cast<double>(bytes * count) * 8e-9 / serialising.value);
    wall_error.push_back(sample.wall / law - 1);
    stamp.push_back(sample.wait_us);
    late.insert(late.end(), sample.late.begin(), sample.late.end());
  }
  std::sort(late.begin(), late.end());
  const Spread r = spread(rate);
  fmt::print(
      "{{\"bench\":\"paced\",\"rate_gbps\":1,\"delay_ms\":20,\"message_bytes\":{},\"messages\":{},"
      "\"achieved_gbps\":{:.5f},\"spread_gbps\":{:.5f},\"time_over_law\":{:.5f},"
      "\"stamp_after_law_us\":{:.3f},\"late_us_median\":{:.1f},\"late_us_max\":{:.1f},"
      "\"checked\":true,{}}}\n",
      bytes, count, r.median, r.spread, spread(wall_error).median, spread(stamp).median,
      late[late.size() / 2], late.back(), machine);
  TRY(pair.sender->close(soon(clock)));
  return {};
}

Status run() {
  utsname host{};
  uname(&host);
  const std::string machine =
      fmt::format("\"cores\":{},\"kernel\":\"{}\",\"machine\":\"{}\"",
                  std::thread::hardware_concurrency(), host.release, host.machine);
  SystemClock clock;
  for (const uint64_t bytes : {64u << 10, 1u << 20, 16u << 20}) TRY(unpaced(clock, bytes, machine));
  for (const uint64_t bytes : {64u << 10, 1u << 20, 16u << 20}) TRY(secured(clock, bytes, machine));
  TRY(paced(clock, 1'000'000, 1, machine));
  TRY(paced(clock, 64 << 10, 500, machine));
  TRY(paced(clock, 1'000'000, 100, machine));
  return {};
}

}  // namespace

int main() {
  if (const Status status = run(); !status) {
    std::fprintf(stderr, "%s\n", status.error().text().c_str());
    return status.error().exit_code();
  }
}
