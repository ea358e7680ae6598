// What a connection writes, and when it asks its link for more.
#include <chrono>

#include "perform/transport/driver.h"

namespace tombolo::transport {
namespace {

using std::chrono::nanoseconds;

constexpr size_t kRecordMax = 16 * 1024;  // of TLS

}  // namespace

// Starts the next write, if there is something and nothing is being written.
void Driver::pump(const ConnectionPtr& c) {
  if (!c->is_open() || c->writing != Writing::kIdle || c->outgoing == Outgoing::kShut) return;
  if (c->secure && say_secure(c)) return;
  if (c->control.empty() && !c->says_last() && !c->in_handshake() && pull(c)) return;
  if (!c->control.empty()) {
    c->control_out = std::move(c->control.front());
    c->control.pop_front();
    return write(c, asio::buffer(c->control_out));
  }
  if (c->says_last()) {
    advance(c->outgoing, Outgoing::kShut);
    asio::error_code ignored;
    c->socket.shutdown(tcp::socket::shutdown_send, ignored);
  }
}

// What TLS itself has to say goes first, and nothing else goes before its handshake is over. True:
// that is on its way, or waits for the other side.
bool Driver::say_secure(const ConnectionPtr& c) {
  if (c->says_last() && !c->secure->ready()) c->control.clear();  // the peer could not open it
  if (c->secure->has_output()) {
    c->secure->take(c->control_out);
    transmit(c, asio::buffer(c->control_out));
    return true;
  }
  return !c->secure->ready() && !c->says_last();
}

void Driver::pump_all(int32_t rank) {
  std::vector<ConnectionPtr> all;
  {
    Lock lock(mutex_);
    for (const auto& [number, c] : peer(rank).connections) all.push_back(c);
  }
  for (const ConnectionPtr& c : all) pump(c);
}

// Asks the link what this connection should carry. True: that will come, or is on its way already.
bool Driver::pull(const ConnectionPtr& c) {
  Lock lock(mutex_);
  Peer& p = peer(c->rank);
  if (!p.came_up()) return false;
  const bool idle = p.link.outbox().empty() || p.link.outbox().held_back();
  const bool pulls = p.pulls(*c);
  if (idle || !pulls) c->meter.pause();
  if (idle && p.tuner) p.tuner->pause();
  // One that the tuner left out still says goodbye, receipts and pings.
  if (!idle && !pulls && !p.link.owes(c->part.connection, clock_.now())) return false;
  if (p.shape.slow_network && !idle && !c->writable) {
    await_writable(c);
    return true;
  }
  const SimTime now = clock_.now();
  const uint64_t tail = p.shape.slow_network && !idle ? adapt(c, p, now) : 0;
  link::Link::Pull next = p.link.pull(c->part.connection, now, tail);
  if (const SimTime* departure = std::get_if<SimTime>(&next)) {
    await_departure(c, p, *departure - now);
    return true;
  }
  if (auto* control = std::get_if<std::vector<std::byte>>(&next)) {
    c->control.push_back(std::move(*control));
    if (!p.link.said_goodbye(c->part.connection)) return false;
    advance(c->outgoing, Outgoing::kLastWords);
    // The others of a paced link may have nothing that wakes them.
    asio::post(io_, [this, rank = c->rank] { pump_all(rank); });
    return false;
  }
  auto* segment = std::get_if<link::Outgoing>(&next);
  if (!segment) return false;
  c->data_out = std::move(*segment);
  c->rider_out = p.link.pull_rider(c->part.connection, now);
  p.bytes_out += c->data_out.payload.size();
  const auto other = p.connections.upper_bound(c->part.connection);
  const ConnectionPtr next_one = other != p.connections.end() && p.pulls(*other->second)
                                     ? other->second
                                     : p.connections.begin()->second;
  lock.unlock();
  c->header_out = link::encode_header(c->data_out.header, c->data_out.payload);
  const auto& payload = c->data_out.payload;
  write(c, std::array{asio::const_buffer(c->rider_out.data(), c->rider_out.size()),
                      asio::const_buffer(c->header_out.data(), c->header_out.size()),
                      asio::const_buffer(payload.data(), payload.size())});
  if (next_one != c) pump(next_one);  // it may be idle, and there may be more
  return true;
}

// For a paced link; one timer for all of its connections.
void Driver::await_departure(const ConnectionPtr& c, Peer& p, SimDuration wait) {
  if (std::exchange(p.timer_set, true)) return;
  c->departure_timer.expires_after(nanoseconds(wait.ns));
  c->departure_timer.async_wait([this, c](asio::error_code error) {
    if (error || !c->is_open()) return;
    {
      Lock lock(mutex_);
      peer(c->rank).timer_set = false;
    }
    pump(c);
  });
}

// So that a segment is taken when the kernel can send it, and not before.
void Driver::await_writable(const ConnectionPtr& c) {
  if (std::exchange(c->waiting, true)) return;
  c->socket.async_wait(tcp::socket::wait_write, [this, c](asio::error_code error) {
    c->waiting = false;
    if (error || !c->is_open()) return;
    c->writable = true;
    pump(c);
    c->writable = false;
  });
}

template <typename Buffers>
void Driver::write(const ConnectionPtr& c, const Buffers& buffers) {
  if (!c->secure) return transmit(c, buffers);
  // Parts that fit into one record become one.
  std::vector<std::byte> joined;
  for (auto it = asio::buffer_sequence_begin(buffers); it != asio::buffer_sequence_end(buffers);
       ++it) {
    const std::span part(static_cast<const std::byte*>(asio::const_buffer(*it).data()),
                         asio::const_buffer(*it).size());
    if (joined.size() + part.size() > kRecordMax) c->secure->seal(std::exchange(joined, {}));
    if (part.size() > kRecordMax) {
      c->secure->seal(part);
    } else {
      joined.insert(joined.end(), part.begin(), part.end());
    }
  }
  if (!joined.empty()) c->secure->seal(joined);
  if (c->says_last() && c->control.empty()) c->secure->say_end();
  c->secure->take(c->control_out);
  transmit(c, asio::buffer(c->control_out));
}

template <typename Buffers>
void Driver::transmit(const ConnectionPtr& c, const Buffers& buffers) {
  advance(c->writing, Writing::kBusy);
  asio::async_write(c->socket, buffers, [this, c](asio::error_code error, size_t) {
    advance(c->writing, error ? Writing::kFailed : Writing::kIdle);
    const size_t bytes = std::exchange(c->data_out, {}).payload.size();
    if (!c->is_open()) return;
    if (c->rank >= 0) {
      Lock lock(mutex_);
      Peer& p = peer(c->rank);
      // The peer is gone. What it said before that is still to be read, and the reader ends it.
      if (error && !p.link.resumable()) p.drop_queue();
      p.bytes_out -= std::min<uint64_t>(bytes, p.bytes_out);
      if (p.idle() || waiting_for_room_ > 0) changed_.notify_all();
    }
    if (!error) return pump(c);
    // After the peer's goodbye nothing is read, so the reader would not notice the end.
    if (c->rank >= 0 && c->incoming == Incoming::kGoodbye)
      lose(c, link::Loss::kEnded, error.message());
  });
}

// Sends the last frame. From now on what the other side sends is ignored; it reads this frame and
// hangs up.
void Driver::say_last(const ConnectionPtr& c, std::vector<std::byte> frame) {
  if (!c->is_open() || c->says_last()) return;
  if (c->incoming != Incoming::kGoodbye) advance(c->incoming, Incoming::kIgnored);
  advance(c->outgoing, Outgoing::kLastWords);
  c->departure_timer.cancel();
  c->control.push_back(std::move(frame));
  pump(c);
}

}  // namespace tombolo::transport
