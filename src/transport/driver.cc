#include "transport/driver.h"

#include <netinet/tcp.h>
#include <sys/socket.h>

#include <cerrno>
#include <chrono>
#include <cstring>

namespace tombolo::transport {
namespace {

using detail::Connection;
using detail::text;
using std::chrono::nanoseconds;

constexpr int kStrangersMax = 64;
constexpr auto kDialAgain = std::chrono::milliseconds(20);
constexpr int kNotSentLowWater = 128 * 1024;  // what the socket of a slow link keeps, bytes

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
    begin(c);
    if (strangers_ > kStrangersMax) {
      refuse(c,
             {ErrorCode::kFailed, fmt::format("more than {} handshakes at once", kStrangersMax)});
      end(c, {});
    }
    accept_next();
  });
}

void Endpoint::Driver::dial(const ConnectionPtr& c, const tcp::endpoint& at, SimTime deadline) {
  if (!c->open) return;
  asio::error_code ignored;
  c->socket.open(at.protocol(), ignored);  // async_connect opens it otherwise
  choose_congestion_control(c->socket.native_handle());
  c->socket.async_connect(at, [this, c, at, deadline](asio::error_code error) {
    if (!c->open) return;
    if (!error) return begin(c);
    asio::error_code ignored;
    c->socket.close(ignored);
    if (clock_.now() >= deadline) return;  // link() words it
    c->departure_timer.expires_after(kDialAgain);
    c->departure_timer.async_wait(
        [this, c, at, deadline](asio::error_code) { dial(c, at, deadline); });
  });
}

// Before the connection is made: what was paced once stays paced. Accepted sockets inherit it.
void Endpoint::Driver::choose_congestion_control(int socket) {
  const std::string& name = options_.congestion_control;
  if (name.empty()) return;
  if (setsockopt(socket, IPPROTO_TCP, TCP_CONGESTION, name.data(),
                 static_cast<socklen_t>(name.size())) != 0 &&
      options_.log) {
    options_.log(fmt::format("TCP's congestion control stays the machine's, not {}: {}", name,
                             std::strerror(errno)));
  }
}

void Endpoint::Driver::begin(const ConnectionPtr& c) {
  asio::error_code ignored;
  c->remote = text(c->socket.remote_endpoint(ignored));
  c->socket.set_option(tcp::no_delay(true), ignored);
  limit_handshake(c);
  if (c->dialed >= 0) {
    c->control.push_back(hello_frame(options_.identity, c->dialed));
    pump(c);
  }
  read(c);
}

// The first time it asks for a hello, the second time it no longer waits for the stranger to go.
void Endpoint::Driver::limit_handshake(const ConnectionPtr& c) {
  c->handshake_timer.expires_after(nanoseconds(options_.handshake_max.ns));
  c->handshake_timer.async_wait([this, c](asio::error_code error) {
    if (error || !c->open || c->rank >= 0) return;
    if (c->deaf) return end(c, {});
    refuse(c, {ErrorCode::kFailed,
               fmt::format("it said no hello within {}", brief(seconds(options_.handshake_max)))});
  });
}

Status Endpoint::Driver::on_hello(const ConnectionPtr& c, const Frame& frame) {
  const int32_t rank = TRY(check_hello(options_.identity, frame));
  if (c->dialed >= 0 && rank != c->dialed)
    return failed(fmt::format("rank {} answered where rank {} was called", rank, c->dialed));
  Lock lock(mutex_);
  if (aborted_ || closing_) return failed("this rank is about to end");
  Peer& p = peer(rank);
  if (p.up) {
    if (options_.on_duplicate) options_.on_duplicate(rank);
    return fail(duplicate_rank(rank));
  }
  c->rank = rank;
  c->handshake_timer.cancel();
  c->decoder.raise_payload_max(kFramePayloadMax);
  c->assembler.emplace(Assembler::Options{.sender = static_cast<uint32_t>(rank),
                                          .epoch = options_.identity.epoch,
                                          .message_max = options_.message_max});
  if (c->dialed < 0) {
    --strangers_;
    c->control.push_back(hello_frame(options_.identity, rank));
  }
  p.up = true;
  p.connection = c;
  changed_.notify_all();
  return {};
}

// Not a peer: says why, once here and once there, and lets the other side hang up.
void Endpoint::Driver::refuse(const ConnectionPtr& c, const Error& error) {
  if (!c->open || c->deaf) return;
  if (c->dialed >= 0) {
    Lock lock(mutex_);
    peer(c->dialed).unreachable =
        Error{error.code,
              fmt::format("no link to rank {} at {}: {}", c->dialed, c->remote, error.message),
              {},
              error.hint};
    changed_.notify_all();
  } else if (options_.log) {
    options_.log(fmt::format("refused a connection from {}: {}", c->remote, error.message));
  }
  limit_handshake(c);
  say_last(c, failure_frame(options_.identity, error.message));
}

// --- Reading ------------------------------------------------------------------------------------

void Endpoint::Driver::read(const ConnectionPtr& c) {
  const auto space = c->decoder.space();
  c->socket.async_read_some(
      asio::buffer(space.data(), space.size()), [this, c](asio::error_code error, size_t bytes) {
        if (!c->open) return;
        if (error) {
          return end_of_stream(c, error == asio::error::eof
                                      ? "the connection ended without a goodbye"
                                      : error.message());
        }
        if (!c->deaf) {
          c->decoder.commit(bytes);
          decode(c);
        }
        if (c->open) read(c);
      });
}

void Endpoint::Driver::decode(const ConnectionPtr& c) {
  while (c->open && !c->deaf) {
    const auto frame = c->decoder.next();
    if (frame && !*frame) break;
    const Status status = frame ? on_frame(c, **frame) : fail(frame.error());
    if (status) continue;
    if (c->rank < 0) return refuse(c, status.error());
    return end(c, lost(c->rank, status.error().message));
  }
  if (c->open && !c->control.empty()) pump(c);  // a hello to answer
}

Status Endpoint::Driver::on_frame(const ConnectionPtr& c, const Frame& frame) {
  if (c->rank < 0) return on_hello(c, frame);
  switch (frame.header.kind) {
    case FrameKind::kData:
      if (auto message = TRY(c->assembler->add(frame))) {
        Lock lock(mutex_);
        peer(c->rank).inbox.add(std::move(*message), clock_.now());
        changed_.notify_all();
      }
      return {};
    case FrameKind::kGoodbye:
      end(c, {ErrorCode::kFailed, fmt::format("rank {} finished and closed its link", c->rank)});
      return {};
    case FrameKind::kFailure:  // in the words of the rank where it began, however far away
      end(c, {ErrorCode::kLostPeer,
              printable(frame.payload),
              {},
              fmt::format("rank {} told so: look at what it said last", c->rank)});
      return {};
    case FrameKind::kHello:
      break;
  }
  return failed("it said hello twice");
}

void Endpoint::Driver::end_of_stream(const ConnectionPtr& c, const std::string& reason) {
  if (c->rank < 0 && !c->deaf) refuse(c, {ErrorCode::kFailed, "it hung up during the handshake"});
  // After our own last words the peer hangs up in answer.
  end(c, c->last_words && c->control.empty()
             ? Error{ErrorCode::kFailed, fmt::format("rank {} closed its link", c->rank)}
             : lost(c->rank, reason));
}

void Endpoint::Driver::end(const ConnectionPtr& c, const Error& error) {
  if (!c->open) return;
  c->open = false;
  c->handshake_timer.cancel();
  c->departure_timer.cancel();
  asio::error_code ignored;
  c->socket.close(ignored);
  if (c->rank < 0) {
    if (c->dialed < 0) --strangers_;
    return;
  }
  Lock lock(mutex_);
  Peer& p = peer(c->rank);
  p.ended = error;
  p.drop_queue();
  p.connection.reset();
  changed_.notify_all();
}

// --- Writing ------------------------------------------------------------------------------------

// Starts the next write, if there is something and nothing is being written.
void Endpoint::Driver::pump(const ConnectionPtr& c) {
  if (!c || !c->open || c->writing || c->silent) return;
  if (c->control.empty() && !c->last_words && c->rank >= 0 && next_data(c)) {
    c->header_out = encode_header(c->data_out.header, c->data_out.payload);
    const auto& payload = c->data_out.payload;
    return write(c, std::array{asio::const_buffer(c->header_out.data(), c->header_out.size()),
                               asio::const_buffer(payload.data(), payload.size())});
  }
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

// Takes the next data frame, or sets the timer for it; when all is sent and the end is near, queues
// the goodbye.
bool Endpoint::Driver::next_data(const ConnectionPtr& c) {
  Lock lock(mutex_);
  Peer& p = peer(c->rank);
  Outbox& outbox = p.outbox;
  const SimTime now = clock_.now();
  const auto departure = outbox.next_departure(now);
  if (!departure) {
    if (closing_) {
      c->control.push_back(goodbye_frame(options_.identity));
      c->last_words = true;
    }
    return false;
  }
  if (*departure > now) {
    c->departure_timer.expires_after(nanoseconds((*departure - now).ns));
    c->departure_timer.async_wait([this, c](asio::error_code error) {
      if (!error) pump(c);
    });
    return false;
  }
  c->data_out = outbox.take(now);
  p.bytes_out = c->data_out.payload.size();
  return true;
}

template <typename Buffers>
void Endpoint::Driver::write(const ConnectionPtr& c, const Buffers& buffers) {
  c->writing = true;
  asio::async_write(c->socket, buffers, [this, c](asio::error_code error, size_t) {
    c->writing = false;
    c->data_out = {};
    if (!c->open) return;
    if (c->rank >= 0) {
      Lock lock(mutex_);
      Peer& p = peer(c->rank);
      // The peer is gone. What it said before that is still to be read, and the reader ends it.
      if (error) p.drop_queue();
      p.bytes_out = 0;
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

void Endpoint::Driver::set_low_water(const ConnectionPtr& c) {
  if (!c || !c->open) return;
  Lock lock(mutex_);
  const LinkShape& shape = peer(c->rank).shape;
  if (!shape.rate && !shape.slow_network) return;
  setsockopt(c->socket.native_handle(), IPPROTO_TCP, TCP_NOTSENT_LOWAT, &kNotSentLowWater,
             sizeof kNotSentLowWater);
}

}  // namespace tombolo::transport
