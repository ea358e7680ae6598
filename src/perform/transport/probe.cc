#include "perform/transport/probe.h"

#include <algorithm>
#include <future>
#include <map>

#include "base/check.h"
#include "base/quantiles.h"
#include "perform/transport/probe_message.h"
#include "perform/transport/tcp_state.h"

namespace tombolo::transport {
namespace {

constexpr int32_t kNear = 0, kFar = 1, kFirstCell = 2;
constexpr SimDuration kConnectMax{10'000'000'000};
constexpr SimDuration kAnswerMax{30'000'000'000};  // beyond the cell's own time
constexpr SimDuration kLook{100'000'000};          // between two looks at the stop flag
constexpr uint64_t kMessage = 256 * 1024, kMessageSlow = 32 * 1024;
constexpr BytesPerSecond kSlow = 200_Mbps;
constexpr uint64_t kQueueMax = 16 << 20;
constexpr int kPings = 8;
constexpr double kAlike = 0.98;
// The counting side begins later than the pouring one, by a handshake and whatever holds it up; it
// says when it has enough.
constexpr Seconds kPourLonger{15};

// One tag for questions and answers, in their order; data has the cell's number.
constexpr link::Tag kAsk{0, 0};
link::Tag data_tag(uint64_t cell) { return {cell + 1, 1}; }

bool stopped(const std::atomic<bool>* stop) { return stop && stop->load(); }

link::LinkShape shape_of(uint32_t connections, const std::string& control) {
  return {.slow_network = true, .connections = connections, .congestion_control = control};
}

// Sends until the deadline, or until the other side has had enough, and says what round trip TCP
// saw. Never more than kQueueMax ahead of the kernel.
Seconds pour(Endpoint& endpoint, int32_t to, uint64_t cell, SimTime until, Clock& clock) {
  Seconds seen;
  SimTime look;
  BytesPerSecond rate;
  while (clock.now() < until) {
    const uint64_t bytes = rate < kSlow ? kMessageSlow : kMessage;
    if (!endpoint.send(to, data_tag(cell), link::Payload(bytes))) break;
    if (clock.now() >= look) {
      look = clock.now() + kLook;
      for (const link::LinkStatistics& link : endpoint.statistics()) {
        if (link.peer != to || link.pulling() == 0) continue;
        seen = link.round_trip();
        rate = link.goodput();
      }
    }
    while (endpoint.queued_bytes() > kQueueMax && clock.now() < until)
      clock.sleep_until(clock.now() + SimDuration{1'000'000});
  }
  return seen;
}

uint64_t received_bytes(Endpoint& endpoint, int32_t from) {
  uint64_t bytes = 0;
  for (const link::LinkStatistics& link : endpoint.statistics()) {
    if (link.peer != from) continue;
    for (const link::ConnectionStatistics& one : link.connections) bytes += one.received_bytes;
  }
  return bytes;
}

Status take_until(SimTime end, Endpoint& endpoint, int32_t from, uint64_t cell, Clock& clock) {
  while (clock.now() < end) {
    const auto message = endpoint.receive(from, data_tag(cell), end);
    if (!message && clock.now() < end) return fail(message.error());
  }
  return {};
}

// What comes between the end of the warm-up and the end. Counted where this kernel gets it: whole
// messages come in leaps, several at once behind a loss, which over seconds is some percent.
Result<BytesPerSecond> count(Endpoint& endpoint, int32_t from, uint64_t cell, Seconds warmup,
                             Seconds counted, Clock& clock) {
  const SimTime start = clock.now();
  TRY(take_until(start + round_to_ns(warmup), endpoint, from, cell, clock));
  const SimTime begin = clock.now();
  const uint64_t before = received_bytes(endpoint, from);
  TRY(take_until(begin + round_to_ns(counted), endpoint, from, cell, clock));
  const SimTime end = clock.now();
  const uint64_t after = received_bytes(endpoint, from);
  if (after < before) return failed("a connection was lost while it was measured");
  return Bytes{static_cast<double>(after - before)} / seconds(end - begin);
}

// The near side of one probe.
class Asker {
 public:
  Asker(ProbeOptions options, Clock& clock) : options_(std::move(options)), clock_(clock) {}

  Status connect() {
    endpoint_ = TRY(open(kNear));
    return endpoint_->connect(kFar, options_.far.host, options_.far.port, {},
                              clock_.now() + kConnectMax);
  }
  // Round trip of a small message; what the far kernel has.
  Result<ProbeAnswer> greet(Seconds& round_trip) {
    ProbeAnswer answer;
    for (int i = 0; i < kPings; ++i) {
      const SimTime begin = clock_.now();
      answer = TRY(ask({}));
      const Seconds took = seconds(clock_.now() - begin);
      if (i == 0 || took < round_trip) round_trip = took;
    }
    return answer;
  }
  Status measure(const ProbeQuestion& question, BytesPerSecond& rate, Seconds& round_trip);
  Status close() { return endpoint_->close(clock_.now() + kConnectMax); }

 private:
  Result<std::unique_ptr<Endpoint>> open(int32_t rank) {
    Endpoint::Options options = options_.endpoint;
    options.identity.rank = rank;
    options.identity.ranks = kFirstCell + kProbeCellsMax;
    return Endpoint::create(std::move(options), clock_);
  }
  Result<ProbeAnswer> ask(const ProbeQuestion& question) {
    TRY(endpoint_->send(kFar, kAsk, encode(question)));
    return answer({});
  }
  Result<ProbeAnswer> answer(Seconds cell) {
    const auto received =
        TRY(endpoint_->receive(kFar, kAsk, clock_.now() + round_to_ns(cell) + kAnswerMax));
    return decode_probe_answer(received.payload);
  }

  ProbeOptions options_;
  Clock& clock_;
  std::unique_ptr<Endpoint> endpoint_;
};

Status Asker::measure(const ProbeQuestion& q, BytesPerSecond& rate, Seconds& round_trip) {
  const int32_t rank = kFirstCell + static_cast<int32_t>(q.cell);
  const auto cell = static_cast<uint64_t>(q.cell);
  const Seconds warmup{q.warmup_s}, counted{q.counted_s};
  TRY(endpoint_->send(kFar, kAsk, encode(q)));
  const auto link = TRY(open(rank));
  TRY(link->connect(kFar, options_.far.host, options_.far.port,
                    shape_of(q.connections, q.congestion_control), clock_.now() + kConnectMax));
  if (q.forth) {
    auto pouring = std::async(std::launch::async, [&] {
      const SimTime until = clock_.now() + round_to_ns(warmup + counted + kPourLonger);
      return pour(*link, kFar, cell, until, clock_);
    });
    const auto told = answer(warmup + counted);
    link->abort({ErrorCode::kFailed, "this cell is measured"});
    round_trip = pouring.get();
    rate = BytesPerSecond{TRY(told).bytes_per_second};
  } else {
    const auto counting = count(*link, kFar, cell, warmup, counted, clock_);
    link->abort({ErrorCode::kFailed, "this cell is measured"});
    rate = TRY(counting);
    round_trip = Seconds{TRY(answer(warmup + counted)).round_trip_s};
  }
  static_cast<void>(link->close(clock_.now() + kConnectMax));  // says again that it was aborted
  return {};
}

// What still came after a cell was counted would stay in memory.
void drain(Endpoint& endpoint, int64_t cell, Clock& clock) {
  if (cell < 0) return;
  const auto rank = static_cast<int32_t>(kFirstCell + cell);
  while (endpoint.receive(rank, data_tag(static_cast<uint64_t>(cell)), clock.now())) {
  }
}

// The far side of one question.
Result<ProbeAnswer> serve_cell(Endpoint& endpoint, const ProbeQuestion& q, Clock& clock) {
  ProbeAnswer out;
  out.congestion_controls = available_congestion_controls();
  if (q.connections == 0) return out;
  if (q.cell < 0) return failed("a cell without a number");
  const int32_t rank = kFirstCell + static_cast<int32_t>(q.cell);
  const auto cell = static_cast<uint64_t>(q.cell);
  const Seconds warmup{q.warmup_s}, counted{q.counted_s};
  TRY(endpoint.await_peer(rank, shape_of(q.connections, q.congestion_control),
                          clock.now() + kConnectMax));
  if (q.forth) {
    out.bytes_per_second = TRY(count(endpoint, rank, cell, warmup, counted, clock)).value;
  } else {
    const SimTime until = clock.now() + round_to_ns(warmup + counted + kPourLonger);
    out.round_trip_s = pour(endpoint, rank, cell, until, clock).value;
  }
  return out;
}

}  // namespace

Seconds probe_warmup(Seconds round_trip) {
  CHECK(round_trip.value >= 0, "a round trip of {} s", round_trip.value);
  return std::min(std::max(Seconds{0.5}, 15 * round_trip), kProbeCellMax);
}

const ProbeCell& ProbeResult::best() const {
  CHECK(!cells.empty(), "the best of no cells");
  const ProbeCell* best = &cells.front();
  for (const ProbeCell& cell : cells) {
    if (cell.both() > best->both()) best = &cell;
  }
  const ProbeCell* found = best;
  for (const ProbeCell& cell : cells) {
    if (cell.both() >= kAlike * best->both() && cell.connections < found->connections)
      found = &cell;
  }
  return *found;
}

Status ProbeOptions::check() const {
  if (connections.empty())
    return unusable("no number of connections to probe", "--connections 1,8");
  for (const uint32_t n : connections) {
    if (n < 1 || n > link::kConnectionsMax)
      return unusable(fmt::format("a link cannot have {} connections", n), "1 to 16");
  }
  if (!(counted.value >= 0.1) || counted > kProbeCellMax)
    return unusable(fmt::format("{:g} s per cell", counted.value), "0.1 to 60 seconds");
  if (rounds < 1 || rounds > 100)
    return unusable(fmt::format("{} rounds", rounds), "1 to 100 rounds");
  return {};
}

Result<ProbeResult> probe(ProbeOptions options,
                          const std::function<void(int64_t, int64_t)>& on_cell, Clock& clock) {
  CHECK(on_cell, "no receiver of the cells");
  TRY(options.check());
  Asker asker(options, clock);
  TRY(during(asker.connect(), "calling the far side, tombolo probe --listen"));
  ProbeResult result;
  const ProbeAnswer far = TRY(asker.greet(result.round_trip));
  const auto near = available_congestion_controls();
  const auto has = [](const std::vector<std::string>& all, const std::string& name) {
    return std::find(all.begin(), all.end(), name) != all.end();
  };
  if (options.congestion_controls.empty()) {
    for (const std::string& name : near) {
      if (has(far.congestion_controls, name)) options.congestion_controls.push_back(name);
    }
    std::sort(options.congestion_controls.begin(), options.congestion_controls.end());
  }
  for (const std::string& name : options.congestion_controls) {
    if (!has(near, name) || !has(far.congestion_controls, name))
      return unusable(
          fmt::format("the {} kernel has no congestion control \"{}\"",
                      has(near, name) ? "far" : "near", name),
          fmt::format("one of {}; as root: modprobe tcp_{}", fmt::join(near, ", "), name));
    for (const uint32_t n : options.connections)
      result.cells.push_back({.connections = n, .congestion_control = name});
  }
  const auto cells = static_cast<int64_t>(result.cells.size());
  const int64_t all = 2 * cells * options.rounds;
  if (all > kProbeCellsMax || all == 0)
    return unusable(fmt::format("{} measurements", all), fmt::format("at most {}", kProbeCellsMax));
  std::vector<std::vector<double>> rates(2 * cells), round_trips(2 * cells);
  for (int64_t i = 0; i < all; ++i) {
    on_cell(i, all);
    if (stopped(options.stop)) return failed("interrupted");
    const int64_t within = i % (2 * cells);
    const int64_t at = i / (2 * cells) % 2 == 0 ? within : 2 * cells - 1 - within;
    const ProbeCell& cell = result.cells[at / 2];
    BytesPerSecond rate;
    Seconds round_trip;
    TRY(during(asker.measure({.cell = i,
                              .connections = cell.connections,
                              .congestion_control = cell.congestion_control,
                              .forth = at % 2 == 0,
                              .warmup_s = probe_warmup(result.round_trip).value,
                              .counted_s = options.counted.value},
                             rate, round_trip),
               fmt::format("measuring {} {} with {}", cell.connections,
                           cell.connections == 1 ? "connection" : "connections",
                           cell.congestion_control)));
    rates[at].push_back(rate.value);
    round_trips[at].push_back(round_trip.value);
  }
  on_cell(all, all);
  for (int64_t c = 0; c < cells; ++c) {
    ProbeCell& cell = result.cells[c];
    cell.forth = BytesPerSecond{median(rates[2 * c])};
    cell.back = BytesPerSecond{median(rates[2 * c + 1])};
    cell.round_trip_forth = Seconds{median(round_trips[2 * c])};
    cell.round_trip_back = Seconds{median(round_trips[2 * c + 1])};
  }
  static_cast<void>(asker.close());
  return result;
}

Result<std::unique_ptr<ProbeServer>> ProbeServer::listen(Endpoint::Options options, Clock& clock) {
  options.identity.rank = kFar;
  options.identity.ranks = kFirstCell + kProbeCellsMax;
  options.message_max = kMessage;
  return std::unique_ptr<ProbeServer>(
      new ProbeServer(TRY(Endpoint::create(std::move(options), clock)), clock));
}

Status ProbeServer::serve(SimTime deadline, const std::atomic<bool>* stop) {
  while (true) {
    const Status came =
        endpoint_->await_peer(kNear, {}, std::min(deadline, clock_.now() + kLook * 5));
    if (came) break;
    if (stopped(stop)) return failed("interrupted");
    if (clock_.now() >= deadline) return failed("no client connected in time", "calling sooner");
  }
  int64_t cell = -1;
  for (SimTime patience = clock_.now() + kAnswerMax;;) {
    const auto received =
        endpoint_->receive(kNear, kAsk, std::min(patience, clock_.now() + kLook * 5));
    if (!received) {
      if (stopped(stop)) return failed("interrupted");
      if (clock_.now() < patience && received.error().code == ErrorCode::kFailed &&
          !endpoint_->statistics().empty() && endpoint_->statistics().front().up) {
        continue;
      }
      break;  // it is through, or gone
    }
    drain(*endpoint_, cell, clock_);
    const ProbeQuestion question = TRY(decode_probe_question(received->payload));
    cell = question.cell;
    const ProbeAnswer answer = TRY(serve_cell(*endpoint_, question, clock_));
    if (!endpoint_->send(kNear, kAsk, encode(answer))) break;
    patience = clock_.now() + kAnswerMax;
  }
  static_cast<void>(endpoint_->close(clock_.now() + kConnectMax));
  return {};
}

}  // namespace tombolo::transport
