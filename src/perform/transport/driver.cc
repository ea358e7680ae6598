#include "perform/transport/driver.h"

#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>

#include "perform/link/splice.h"
#include "perform/transport/tcp_state.h"

namespace tombolo::transport {
namespace {

using detail::Connection;
using detail::text;
using std::chrono::nanoseconds;

constexpr int kStrangersMax = 256;
constexpr auto kDialAgain = std::chrono::milliseconds(20);
constexpr SimDuration kTuneEvery{20'000'000};
constexpr uint32_t kPacedMark = 128 * 1024;  // what the kernel keeps unsent of a paced link, bytes

Error lost(int32_t rank, const std::string& reason) {
  return {ErrorCode::kLostPeer,
          fmt::format("lost rank {}: {}", rank, reason),
          {},
          fmt::format("look at what rank {} said last", rank)};
}

}  // namespace

std::string detail::text(const tcp::endpoint& at) {
  return fmt::format("{}:{}", at.address().to_string(), at.port());
}

// --- Becoming acquainted ------------------------------------------------------------------------

void Endpoint::Driver::accept_next() {
  const auto c = std::make_shared<Connection>(io_);
  acceptor_.async_accept(c->socket, [this, c](asio::error_code error) {
    if (error) {  // out of file descriptors, mostly: others may end meanwhile
      accept_timer_.expires_after(std::chrono::milliseconds(100));
      accept_timer_.async_wait([this](asio::error_code) { accept_next(); });
      return;
    }
    ++strangers_;
    c->stranger = true;
    begin(c);
    if (strangers_ > kStrangersMax) {
      refuse(c,
             {ErrorCode::kFailed, fmt::format("more than {} handshakes at once", kStrangersMax)});
      end(c, {});
    }
    accept_next();
  });
}

void Endpoint::Driver::dial(const ConnectionPtr& c) {
  if (!c->open) return;
  asio::error_code ignored;
  c->socket.open(c->at.protocol(), ignored);  // async_connect opens it otherwise
  choose_congestion_control(c->socket.native_handle(), options_.congestion_control);
  c->socket.async_connect(c->at, [this, c](asio::error_code error) {
    if (!c->open) return;
    if (!error) return c->meets >= 0 ? ask_for_peer(c) : begin(c);
    asio::error_code ignored;
    c->socket.close(ignored);
    if (clock_.now() >= c->dial_until) return;  // link() words it
    c->departure_timer.expires_after(kDialAgain);
    c->departure_timer.async_wait([this, c](asio::error_code) { dial(c); });
  });
}

// At a splice. Its peer may be long in coming; then this is a connection like any other, and the
// lower of the two ranks is the one that dialed.
void Endpoint::Driver::ask_for_peer(const ConnectionPtr& c) {
  const auto joined = [this, c](asio::error_code error, size_t) {
    if (!c->open) return;
    if (!error && c->control_out[0] == link::kJoined) return begin(c);
    {
      Lock lock(mutex_);
      peer(c->meets).unreachable =
          Error{ErrorCode::kLostPeer,
                fmt::format("the coordinator at {} hung up before rank {} called it", text(c->at),
                            c->meets),
                {},
                "look at what the coordinator said last"};
      changed_.notify_all();
    }
    end(c, {});
  };
  const link::Preface preface = link::encode_preface(
      options_.identity.token, {options_.identity.rank, c->meets, c->part.connection});
  c->control_out.assign(preface.begin(), preface.end());
  c->socket.set_option(asio::socket_base::keep_alive(true));
  asio::async_write(c->socket, asio::buffer(c->control_out),
                    [c, joined](asio::error_code error, size_t bytes) {
                      if (error) return joined(error, bytes);
                      asio::async_read(c->socket, asio::buffer(c->control_out.data(), 1), joined);
                    });
}

// Before the connection is made: what was paced once stays paced. Accepted sockets inherit it.
void Endpoint::Driver::choose_congestion_control(int socket, const std::string& name) {
  if (!name.empty() && !set_congestion_control(socket, name) && options_.log) {
    options_.log(fmt::format("TCP's congestion control stays the machine's, not {}: {}", name,
                             std::strerror(errno)));
  }
}

void Endpoint::Driver::begin(const ConnectionPtr& c) {
  asio::error_code ignored;
  c->remote = text(c->socket.remote_endpoint(ignored));
  c->socket.set_option(tcp::no_delay(true), ignored);
  limit_handshake(c);
  if (secure_) {
    using Role = trust::SecureStream::Role;
    const Role role = c->dialed >= 0 ? Role::kDials : Role::kAnswers;
    c->secure = std::make_unique<trust::SecureStream>(secure_, role);
  }
  if (c->dialed >= 0) {
    c->control.push_back(link::hello_frame(options_.identity, c->dialed, c->part));
    pump(c);
  }
  read(c);
}

// The first time it asks for a hello, the second time it no longer waits for the stranger to go. A
// connection that shook hands has as long until all others of its link have.
void Endpoint::Driver::limit_handshake(const ConnectionPtr& c) {
  c->handshake_timer.expires_after(nanoseconds(options_.handshake_max.ns));
  c->handshake_timer.async_wait([this, c](asio::error_code error) {
    if (error || !c->open) return;
    const std::string limit = brief(seconds(options_.handshake_max));
    if (c->rank >= 0) {
      if (options_.log) {
        options_.log(
            fmt::format("gave up a link to rank {}: not all of its {} connections came "
                        "within {}",
                        c->rank, c->part.connections, limit));
      }
      return end(c, lost(c->rank, "not all of its connections came within " + limit));
    }
    if (c->deaf) return end(c, {});
    refuse(c, {ErrorCode::kFailed, fmt::format("it said no hello within {}", limit)});
  });
}

Status Endpoint::Driver::on_hello(const ConnectionPtr& c, const link::Frame& frame) {
  const link::Caller caller = TRY(link::check_hello(options_.identity, frame));
  if (c->dialed >= 0 && caller.rank != c->dialed)
    return failed(fmt::format("rank {} answered where rank {} was called", caller.rank, c->dialed));
  if (c->dialed >= 0 && caller.part != c->part)
    return failed(fmt::format("rank {} answered to another connection", caller.rank));
  std::vector<ConnectionPtr> outdated;
  const Status joined = join(c, caller, outdated);
  for (const ConnectionPtr& other : outdated) shut(other);
  TRY(joined);
  if (c->dialed < 0)
    c->control.push_back(link::hello_frame(options_.identity, caller.rank, caller.part));
  if (c->dialed >= 0 && c->part.connection == 0) dial_others(c);
  return {};
}

Status Endpoint::Driver::join(const ConnectionPtr& c, const link::Caller& caller,
                              std::vector<ConnectionPtr>& outdated) {
  Lock lock(mutex_);
  if (aborted_ || closing_) return failed("this rank is about to end");
  Peer& p = peer(caller.rank);
  if (c->dialed >= 0 && !p.link.gathering().expects(c->part.attempt))
    return failed("the attempt to link was given up");
  const auto welcome = p.link.gathering().add(caller);
  if (!welcome) {
    if (options_.on_duplicate && link::is_duplicate_refusal(welcome.error()))
      options_.on_duplicate(caller.rank);
    return fail(welcome.error());
  }
  if (*welcome == link::Gathering::Welcome::kJoinedAnew) {
    for (const auto& [number, other] : std::exchange(p.connections, {})) outdated.push_back(other);
  }
  c->rank = caller.rank;
  c->part = caller.part;
  c->decoder.raise_payload_max(link::kFramePayloadMax);
  if (c->secure) c->secure->widen();
  p.connections[c->part.connection] = c;
  known(c);
  if (!p.link.up()) return {};
  p.up = true;
  p.dialing.clear();
  for (const auto& [number, each] : p.connections) each->handshake_timer.cancel();
  changed_.notify_all();
  return {};
}

void Endpoint::Driver::dial_others(const ConnectionPtr& first) {
  std::vector<ConnectionPtr> others;
  {
    Lock lock(mutex_);
    others = peer(first->dialed).dialing;
  }
  for (const ConnectionPtr& c : others) {
    if (c != first) dial(c);
  }
}

// Not a peer: says why, once here and once there, and lets the other side hang up.
void Endpoint::Driver::refuse(const ConnectionPtr& c, const Error& error) {
  if (!c->open || c->deaf) return;
  const int32_t called = std::max(c->dialed, c->meets);
  if (called >= 0) {
    Lock lock(mutex_);
    peer(called).unreachable = Error{
        error.code,
        fmt::format("no link to rank {} {} {}: {}", called,
                    c->meets >= 0 ? "through the coordinator at" : "at", c->remote, error.message),
        {},
        error.hint};
    changed_.notify_all();
  } else if (options_.log) {
    options_.log(fmt::format("refused a connection from {}: {}", c->remote, error.message));
  }
  limit_handshake(c);
  say_last(c, link::failure_frame(options_.identity, error.message));
}

// --- Reading ------------------------------------------------------------------------------------

void Endpoint::Driver::read(const ConnectionPtr& c) {
  const auto space = c->secure ? c->secure->space() : c->decoder.space();
  c->socket.async_read_some(
      asio::buffer(space.data(), space.size()), [this, c](asio::error_code error, size_t bytes) {
        if (!c->open) return;
        if (error) {
          std::string reason = error == asio::error::eof ? "the connection ended without a goodbye"
                                                         : error.message();
          if (c->meets >= 0) reason += "; it went through the coordinator";
          return end_of_stream(c, reason);
        }
        c->spoke = true;
        if (c->secure) {
          open_sealed(c, bytes);
        } else if (!c->deaf) {
          c->decoder.commit(bytes);
          decode(c);
        }
        if (c->open && !c->heard) read(c);
      });
}

// With TLS what comes is opened first, and the handshake answered.
void Endpoint::Driver::open_sealed(const ConnectionPtr& c, size_t bytes) {
  c->secure->commit(bytes);
  while (c->open && !c->heard) {
    const auto opened = c->secure->open(c->decoder.space());
    if (!opened && c->deaf) break;
    if (!opened && c->rank < 0) return refuse(c, opened.error());
    if (!opened) return end(c, lost(c->rank, opened.error().message));
    if (*opened == 0) break;
    if (c->deaf) continue;
    c->decoder.commit(*opened);
    decode(c);
  }
  if (c->open && c->secure->has_output()) pump(c);
}

void Endpoint::Driver::decode(const ConnectionPtr& c) {
  while (c->open && !c->deaf && !c->heard) {
    const auto frame = c->decoder.next();
    if (frame && !*frame) break;
    const Status status = frame ? on_frame(c, **frame) : fail(frame.error());
    if (status) continue;
    if (c->rank < 0) return refuse(c, status.error());
    return end(c, lost(c->rank, status.error().message));
  }
  if (c->open && !c->control.empty()) pump(c);  // a hello to answer, a receipt
}

Status Endpoint::Driver::on_frame(const ConnectionPtr& c, const link::Frame& frame) {
  if (c->rank < 0) return on_hello(c, frame);
  if (frame.header.kind != link::FrameKind::kFailure) return on_link_frame(c, frame);
  // In the words of the rank where it began, however far away.
  end(c, {ErrorCode::kLostPeer,
          link::printable(frame.payload),
          {},
          fmt::format("rank {} told so: look at what it said last", c->rank)});
  return {};
}

Status Endpoint::Driver::on_link_frame(const ConnectionPtr& c, const link::Frame& frame) {
  bool finished = false, receipt = false;
  {
    Lock lock(mutex_);
    link::Link& link = peer(c->rank).link;
    const uint64_t before = link.inbox().messages();
    link::Frame timed = frame;
    if (!options_.one_clock) timed.header.start = timed.header.departed = clock_.now();
    TRY(link.accept(c->part.connection, timed, clock_.now()));
    if (link.inbox().messages() != before) changed_.notify_all();
    c->heard = link.heard_goodbye(c->part.connection);
    finished = link.finished();
    receipt = link.owes_receipt();
  }
  if (finished)
    end(c, {ErrorCode::kFailed, fmt::format("rank {} finished and closed its link", c->rank)});
  if (receipt) pump(c);
  return {};
}

void Endpoint::Driver::end_of_stream(const ConnectionPtr& c, const std::string& reason) {
  // Who said nothing at all may have looked whether this door can be reached (reach.h).
  const bool looked = c->dialed < 0 && c->meets < 0 && !c->spoke;
  if (c->rank < 0 && !c->deaf && !looked)
    refuse(c, {ErrorCode::kFailed, "it hung up during the handshake"});
  const bool cut = c->secure && !c->secure->heard_end();  // by whoever sits on the way, perhaps
  if (c->rank < 0 || cut || !c->last_words || !c->control.empty())
    return end(c, lost(c->rank, reason));
  // After our own last words the peer hangs up in answer, one connection after the other.
  shut(c);
  bool last = false;
  {
    Lock lock(mutex_);
    Peer& p = peer(c->rank);
    p.connections.erase(c->part.connection);
    last = p.connections.empty();
  }
  if (last)
    end_link(c->rank, {ErrorCode::kFailed, fmt::format("rank {} closed its link", c->rank)});
}

// This socket is over; what that means is for the callers.
void Endpoint::Driver::shut(const ConnectionPtr& c) {
  c->open = false;
  c->handshake_timer.cancel();
  c->departure_timer.cancel();
  asio::error_code ignored;
  if (c->secure && !c->writing) {  // the other side may wait to hear that this was meant
    c->secure->say_end();
    c->secure->take(c->control_out);
    if (c->socket.is_open())
      ::send(c->socket.native_handle(), c->control_out.data(), c->control_out.size(),
             MSG_DONTWAIT | MSG_NOSIGNAL);
  }
  c->socket.close(ignored);
}

// This connection is over, and its link with it.
void Endpoint::Driver::end(const ConnectionPtr& c, const Error& error) {
  if (!c->open) return;
  shut(c);
  known(c);
  if (c->rank >= 0) end_link(c->rank, error);
}

void Endpoint::Driver::known(const ConnectionPtr& c) {
  if (std::exchange(c->stranger, false)) --strangers_;
}

void Endpoint::Driver::end_link(int32_t rank, const Error& error) {
  Lock lock(mutex_);
  Peer& p = peer(rank);
  for (const auto& [number, other] : std::exchange(p.connections, {})) shut(other);
  changed_.notify_all();
  if (p.up) {
    p.ended = error;
    p.drop_queue();
  } else if (p.link.gathering().expecting() || p.through) {  // our own call, which link() ends
    p.unreachable = error;
  } else {
    p.link.gathering().start_over();
  }
}

// --- Writing ------------------------------------------------------------------------------------

// Starts the next write, if there is something and nothing is being written.
void Endpoint::Driver::pump(const ConnectionPtr& c) {
  if (!c->open || c->writing || c->silent) return;
  if (c->secure && say_secure(c)) return;
  if (c->control.empty() && !c->last_words && c->rank >= 0 && pull(c)) return;
  if (!c->control.empty()) {
    c->control_out = std::move(c->control.front());
    c->control.pop_front();
    return write(c, asio::buffer(c->control_out));
  }
  if (c->last_words) {
    c->silent = true;
    asio::error_code ignored;
    c->socket.shutdown(tcp::socket::shutdown_send, ignored);
  }
}

// What TLS itself has to say goes first, and nothing else goes before its handshake is over. True:
// that is on its way, or waits for the other side.
bool Endpoint::Driver::say_secure(const ConnectionPtr& c) {
  if (c->last_words && !c->secure->ready()) c->control.clear();  // nobody could open it
  if (c->secure->has_output()) {
    c->secure->take(c->control_out);
    transmit(c, asio::buffer(c->control_out));
    return true;
  }
  return !c->secure->ready() && !c->last_words;
}

void Endpoint::Driver::pump_all(int32_t rank) {
  std::vector<ConnectionPtr> all;
  {
    Lock lock(mutex_);
    for (const auto& [number, c] : peer(rank).connections) all.push_back(c);
  }
  for (const ConnectionPtr& c : all) pump(c);
}

// Asks the link what this connection should carry. True: that will come, or is on its way already.
bool Endpoint::Driver::pull(const ConnectionPtr& c) {
  Lock lock(mutex_);
  Peer& p = peer(c->rank);
  if (!p.up) return false;
  const bool idle = p.link.outbox().empty();
  if (idle || c->part.connection >= p.pulling) c->meter.pause();
  if (idle && p.tuner) p.tuner->pause();
  // One that the tuner left out still says goodbye, and receipts.
  if (!idle && c->part.connection >= p.pulling && !p.link.owes_receipt()) return false;
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
    c->last_words = p.link.said_goodbye(c->part.connection);
    if (c->last_words)  // the others of a paced link may have nothing that wakes them
      asio::post(io_, [this, rank = c->rank] { pump_all(rank); });
    return false;
  }
  auto* segment = std::get_if<link::Outgoing>(&next);
  if (!segment) return false;
  c->data_out = std::move(*segment);
  p.bytes_out += c->data_out.payload.size();
  const auto other = p.connections.upper_bound(c->part.connection);
  const ConnectionPtr next_one = other != p.connections.end() && other->first < p.pulling
                                     ? other->second
                                     : p.connections.begin()->second;
  lock.unlock();
  c->header_out = link::encode_header(c->data_out.header, c->data_out.payload);
  const auto& payload = c->data_out.payload;
  write(c, std::array{asio::const_buffer(c->header_out.data(), c->header_out.size()),
                      asio::const_buffer(payload.data(), payload.size())});
  if (next_one != c) pump(next_one);  // it may be idle, and there may be more
  return true;
}

// For a paced link; one timer for all of its connections.
void Endpoint::Driver::await_departure(const ConnectionPtr& c, Peer& p, SimDuration wait) {
  if (std::exchange(p.timer_set, true)) return;
  c->departure_timer.expires_after(nanoseconds(wait.ns));
  c->departure_timer.async_wait([this, c](asio::error_code error) {
    if (error || !c->open) return;
    {
      Lock lock(mutex_);
      peer(c->rank).timer_set = false;
    }
    pump(c);
  });
}

// So that a segment is taken when the kernel can send it, and not before.
void Endpoint::Driver::await_writable(const ConnectionPtr& c) {
  if (std::exchange(c->waiting, true)) return;
  c->socket.async_wait(tcp::socket::wait_write, [this, c](asio::error_code error) {
    c->waiting = false;
    if (error || !c->open) return;
    c->writable = true;
    pump(c);
    c->writable = false;
  });
}

// Learns what the connections carry, also those that stand still, and lets the kernel hold as
// little as that allows. The tail that this connection leaves to others.
uint64_t Endpoint::Driver::adapt(const ConnectionPtr& c, Peer& p, SimTime now) {
  if (p.tuner && now - p.tuned_at >= kTuneEvery) tune(c->rank, p, now);
  link::LinkRates rates{.connections = std::min(c->part.connections, p.pulling)};
  for (const auto& [number, each] : p.connections) {
    if (number >= p.pulling) break;
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

void Endpoint::Driver::tune(int32_t rank, Peer& p, SimTime now) {
  link::LinkTuner::Sample sample{.at = now};
  p.tuned_at = now;
  for (const auto& [number, c] : p.connections) {
    const auto state = read_tcp_state(c->socket.native_handle());
    if (!state) continue;
    sample.delivered += state->delivered;
    sample.retransmitted += state->retransmitted;
    if (number < p.pulling) sample.round_trip += state->round_trip / p.pulling;
  }
  if (p.tuner->sample(sample)) choose(rank, p);
}

// Performs the tuner's choice. What begins to pull, has another congestion control or a larger
// share than before looks for its rate anew.
void Endpoint::Driver::choose(int32_t rank, Peer& p) {
  const link::LinkChoice& choice = p.tuner->choice();
  const uint32_t before = std::exchange(p.pulling, choice.connections);
  for (const auto& [number, c] : p.connections) {
    if (number >= p.pulling) break;
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
std::vector<link::LinkStatistics> Endpoint::Driver::look() {
  std::vector<link::LinkStatistics> out;
  const SimTime now = clock_.now();
  for (auto& [rank, p] : peers_) {
    if (!p.up) continue;
    link::LinkStatistics link{.peer = rank,
                              .up = !p.ended,
                              .through = p.through ? "coordinator" : "",
                              .tuned = p.tuner.has_value()};
    if (p.tuner) {
      link.exploring = p.tuner->exploring();
      link.reason = p.tuner->reason();
    }
    for (const auto& [number, c] : p.connections) {
      const int socket = c->socket.native_handle();
      const auto tcp = read_tcp_state(socket);
      if (!tcp) continue;
      const SimTime since = std::exchange(c->looked_at, now);
      const uint64_t bytes =
          tcp->acknowledged - std::exchange(c->looked_acknowledged, tcp->acknowledged);
      link::ConnectionStatistics& s = link.connections.emplace_back();
      s.connection = number;
      s.pulls = number < p.pulling;
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

template <typename Buffers>
void Endpoint::Driver::write(const ConnectionPtr& c, const Buffers& buffers) {
  if (!c->secure) return transmit(c, buffers);
  for (auto it = asio::buffer_sequence_begin(buffers); it != asio::buffer_sequence_end(buffers);
       ++it) {
    const asio::const_buffer plain(*it);
    c->secure->seal({static_cast<const std::byte*>(plain.data()), plain.size()});
  }
  if (c->last_words && c->control.empty()) c->secure->say_end();
  c->secure->take(c->control_out);
  transmit(c, asio::buffer(c->control_out));
}

template <typename Buffers>
void Endpoint::Driver::transmit(const ConnectionPtr& c, const Buffers& buffers) {
  c->writing = true;
  asio::async_write(c->socket, buffers, [this, c](asio::error_code error, size_t) {
    c->writing = false;
    const size_t bytes = std::exchange(c->data_out, {}).payload.size();
    if (!c->open) return;
    if (c->rank >= 0) {
      Lock lock(mutex_);
      Peer& p = peer(c->rank);
      // The peer is gone. What it said before that is still to be read, and the reader ends it.
      if (error) p.drop_queue();
      p.bytes_out -= std::min<uint64_t>(bytes, p.bytes_out);
      if (p.idle()) changed_.notify_all();
    }
    if (!error) pump(c);
  });
}

// From now on nobody listens to the other side; it hears this, and hangs up.
void Endpoint::Driver::say_last(const ConnectionPtr& c, std::vector<std::byte> frame) {
  if (!c->open || c->last_words) return;
  c->deaf = true;
  c->last_words = true;
  c->departure_timer.cancel();
  c->control.push_back(std::move(frame));
  pump(c);
}

// What a link needs once it is up.
void Endpoint::Driver::prepare(int32_t rank) {
  Lock lock(mutex_);
  Peer& p = peer(rank);
  if (!p.shape.congestion_control.empty()) {
    for (const auto& [number, c] : p.connections)
      choose_congestion_control(c->socket.native_handle(), p.shape.congestion_control);
  }
  if (!p.shape.rate && !p.shape.slow_network) return;
  const auto connections = static_cast<uint32_t>(p.connections.size());
  for (const auto& [number, c] : p.connections) {
    c->mark =
        p.shape.slow_network ? link::commitment({.connections = connections}, {}).mark : kPacedMark;
    set_unsent_mark(c->socket.native_handle(), c->mark);
    if (p.shape.slow_network && connections > 1) spread_bursts(c->socket.native_handle());
  }
  if (!p.shape.tuned() || p.connections.empty()) return;
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

}  // namespace tombolo::transport
