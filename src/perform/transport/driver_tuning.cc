// The settings of a link's connections, their tuning, and their statistics.
#include <algorithm>

#include "perform/transport/driver.h"
#include "perform/transport/tcp_state.h"

namespace tombolo::transport {
namespace {

constexpr SimDuration kTuneEvery{20'000'000};
constexpr uint32_t kPacedMark = 128 * 1024;  // what the kernel keeps unsent of a paced link, bytes

}  // namespace

// Samples what the connections carry, also those that stand still, and lets the kernel hold as
// little as that allows. Returns the tail that this connection leaves to others.
uint64_t Driver::adapt(const ConnectionPtr& c, Peer& p, SimTime now) {
  if (p.tuner && now - p.tuned_at >= kTuneEvery) tune(c->rank, p, now);
  link::LinkRates rates{.connections = std::min(c->part.connections, p.pulling)};
  for (const auto& [number, each] : p.connections) {
    if (!p.pulls(*each)) break;
    if (each->meter.due(now)) {
      const auto state = read_tcp_state(each->socket.native_handle());
      if (state) each->meter.sample(now, state->acknowledged);
    }
    rates.link.value += each->meter.rate().value;
    rates.best = std::max(rates.best, each->meter.rate());
  }
  const link::Commitment fit = link::commitment(rates, c->meter.rate());
  p.link.outbox().set_segment_max(fit.segment_max);
  if (std::exchange(c->mark, fit.mark) != fit.mark)
    set_unsent_mark(c->socket.native_handle(), fit.mark);
  return fit.tail;
}

void Driver::tune(int32_t rank, Peer& p, SimTime now) {
  link::LinkTuner::Sample sample{.at = now};
  p.tuned_at = now;
  for (const auto& [number, c] : p.connections) {
    const auto state = read_tcp_state(c->socket.native_handle());
    if (!state) continue;
    sample.delivered += state->delivered;
    sample.retransmitted += state->retransmitted;
    if (p.pulls(*c)) sample.round_trip += state->round_trip / p.pulling;
  }
  if (p.tuner->sample(sample)) choose(rank, p);
}

// Applies the tuner's choice. A connection that begins to pull, has another congestion control or a
// larger share than before searches for its rate again.
void Driver::choose(int32_t rank, Peer& p) {
  const link::LinkChoice& choice = p.tuner->choice();
  const uint32_t before = std::exchange(p.pulling, choice.connections);
  for (const auto& [number, c] : p.connections) {
    if (!p.pulls(*c)) break;
    const int socket = c->socket.native_handle();
    if (choice.congestion_control != congestion_control_of(socket)) {
      set_congestion_control(socket, choice.congestion_control);
    } else if (number >= before || p.pulling < before) {
      restart_congestion_control(socket, choice.congestion_control);
    }
  }
  asio::post(io_, [this, rank] { pump_all(rank); });
}

// Under the mutex, on the io thread.
std::vector<link::LinkStatistics> Driver::look() {
  std::vector<link::LinkStatistics> out;
  const SimTime now = clock_.now();
  for (auto& [rank, p] : peers_) {
    if (!p.came_up()) continue;
    link::LinkStatistics link{.peer = rank,
                              .up = !p.ended(),
                              .through = p.through ? "coordinator" : "",
                              .tuned = p.tuner.has_value()};
    if (p.tuner) {
      link.exploring = p.tuner->exploring();
      link.reason = p.tuner->reason();
    }
    SimTime heard = p.heard_at;
    for (const auto& [number, c] : p.connections) heard = std::max(heard, c->heard_at);
    link.silence = seconds(now - heard);
    link.losses = p.recovery ? p.recovery->losses() : 0;
    link.unconfirmed_bytes = p.link.kept_bytes();
    for (const auto& [number, c] : p.connections) {
      const int socket = c->socket.native_handle();
      const auto tcp = read_tcp_state(socket);
      if (!tcp) continue;
      const SimTime since = std::exchange(c->looked_at, now);
      const uint64_t bytes =
          tcp->acknowledged - std::exchange(c->looked_acknowledged, tcp->acknowledged);
      link::ConnectionStatistics& s = link.connections.emplace_back();
      s.connection = number;
      s.pulls = p.pulls(*c);
      s.congestion_control = congestion_control_of(socket);
      s.acknowledged_bytes = tcp->acknowledged;
      s.received_bytes = tcp->received;
      s.retransmits = tcp->retransmitted;
      s.round_trip = tcp->round_trip;
      if (since.ns > 0 && now > since)
        s.goodput = Bytes{static_cast<double>(bytes)} / seconds(now - since);
    }
    for (const auto& [urgency, bytes] : p.link.outbox().queued_by_urgency())
      link.queued_bytes.emplace_back(urgency, bytes);
    out.push_back(std::move(link));
  }
  return out;
}

// What a link needs once it is up.
void Driver::prepare(int32_t rank) {
  Lock lock(mutex_);
  Peer& p = peer(rank);
  for (const auto& [number, c] : p.connections) prepare(c, p);
  if (!p.shape.tuned() || p.connections.empty()) return;
  const auto connections = p.link.gathering().connections();
  link::LinkTuner::Options options{.connections_first = std::min(8u, connections)};
  if (p.shape.tune_connections) {
    std::erase_if(options.connections, [&](uint32_t n) { return n > connections; });
  } else {
    options.connections = {connections};
  }
  const auto known = available_congestion_controls();
  std::erase_if(options.congestion_controls, [&](const std::string& name) {
    return std::find(known.begin(), known.end(), name) == known.end();
  });
  if (!p.shape.tune_congestion_control) {
    options.congestion_controls = {
        congestion_control_of(p.connections.begin()->second->socket.native_handle())};
  }
  p.tuner.emplace(std::move(options));
  choose(rank, p);
}

// A connection of a link that is up, the first or one in place of a lost one.
void Driver::prepare(const ConnectionPtr& c, Peer& p) {
  const int socket = c->socket.native_handle();
  if (p.link.resumable()) set_user_timeout(socket, options_.silence_max);
  if (p.tuner) {
    set_congestion_control(socket, p.tuner->choice().congestion_control);
  } else if (!p.shape.congestion_control.empty()) {
    choose_congestion_control(socket, p.shape.congestion_control);
  }
  if (!p.shape.rate && !p.shape.slow_network) return;
  const uint32_t connections = p.link.gathering().connections();
  c->mark =
      p.shape.slow_network ? link::commitment({.connections = connections}, {}).mark : kPacedMark;
  set_unsent_mark(socket, c->mark);
  if (p.shape.slow_network && connections > 1) spread_bursts(socket);
}

}  // namespace tombolo::transport
