// What a connection reads, and how it ends. The rest of the io thread, by subject:
// driver_meeting.cc, driver_writing.cc, driver_recovery.cc, driver_tuning.cc.
#include "perform/transport/driver.h"

#include <sys/socket.h>

#include "base/check.h"

namespace tombolo::transport {

std::string detail::text(const tcp::endpoint& at) {
  return fmt::format("{}:{}", at.address().to_string(), at.port());
}

Error detail::lost(int32_t rank, const std::string& reason) {
  return {ErrorCode::kLostPeer,
          fmt::format("lost rank {}: {}", rank, reason),
          {},
          fmt::format("look at what rank {} said last", rank)};
}

void detail::Connection::link_as(int32_t peer, const link::LinkPart& its_part) {
  advance(state, ConnectionState::kLinked);
  rank = peer;
  part = its_part;
  decoder.raise_payload_max(link::kFramePayloadMax);
  if (secure) secure->widen();
}

namespace {

// kEnded: the other side, or a gateway in its place, closed the connection. kSilent: the kernel got
// no answer.
link::Loss loss_of(const asio::error_code& error) {
  const bool said = error == asio::error::eof || error == asio::error::connection_reset ||
                    error == asio::error::connection_aborted || error == asio::error::broken_pipe;
  return said ? link::Loss::kEnded : link::Loss::kSilent;
}

}  // namespace

// --- Reading ------------------------------------------------------------------------------------

void Driver::read(const ConnectionPtr& c) {
  // What a refused connection sends is not decoded, so it may not go into the decoder: that would be
  // full soon, and a read without space completes at once, again and again.
  const auto space = c->secure                           ? c->secure->space()
                     : c->incoming == Incoming::kIgnored ? std::span<std::byte>(unread_)
                                                         : c->decoder.space();
  CHECK(!space.empty(), "a read of no bytes from {}", c->remote);
  c->socket.async_read_some(
      asio::buffer(space.data(), space.size()), [this, c](asio::error_code error, size_t bytes) {
        if (!c->is_open()) return close_parked(c);
        if (error) {
          std::string reason = error == asio::error::eof ? "the connection ended without a goodbye"
                                                         : error.message();
          if (c->meets >= 0) reason += "; it went through the coordinator";
          return end_of_stream(c, loss_of(error), reason);
        }
        if (c->unauthenticated != 0) unauthenticated_.spoke(c->unauthenticated);
        if (c->incoming == Incoming::kNothing) advance(c->incoming, Incoming::kRead);
        c->heard_at = clock_.now();
        if (c->secure) {
          open_sealed(c, bytes);
        } else if (c->incoming == Incoming::kRead) {
          c->decoder.commit(bytes);
          decode(c);
        }
        if (c->is_open() && c->incoming != Incoming::kGoodbye) read(c);
      });
}

// With TLS: decrypts what came, and answers the handshake.
void Driver::open_sealed(const ConnectionPtr& c, size_t bytes) {
  c->secure->commit(bytes);
  while (c->is_open() && c->incoming != Incoming::kGoodbye) {
    const auto opened = c->secure->open(c->decoder.space());
    const bool ignored = c->incoming == Incoming::kIgnored;
    if (!opened && ignored) break;
    if (!opened && c->in_handshake()) return refuse(c, opened.error());
    if (!opened) return lose(c, link::Loss::kEnded, opened.error().message);
    if (*opened == 0) break;
    if (ignored) continue;
    c->decoder.commit(*opened);
    decode(c);
  }
  if (c->is_open() && c->secure->has_output()) pump(c);
}

void Driver::decode(const ConnectionPtr& c) {
  while (c->is_open() && c->incoming == Incoming::kRead) {
    const auto frame = c->decoder.next();
    if (frame && !*frame) break;
    if (frame) c->frame_at = c->heard_at;
    const Status status = frame ? on_frame(c, **frame) : fail(frame.error());
    if (status) continue;
    if (c->in_handshake()) return refuse(c, status.error());
    // Damaged on the way: a resumable link sends again what is missing.
    if (!frame) return lose(c, link::Loss::kEnded, status.error().message);
    return end(c, detail::lost(c->rank, status.error().message));
  }
  if (c->is_open() && !c->control.empty()) pump(c);  // a hello to answer, a receipt
}

Status Driver::on_frame(const ConnectionPtr& c, const link::Frame& frame) {
  if (c->in_handshake()) return on_hello(c, frame);
  if (frame.header.kind != link::FrameKind::kFailure) return on_link_frame(c, frame);
  // The message of the rank where it began, even if others passed it on.
  end(c, {ErrorCode::kLostPeer,
          link::printable(frame.payload),
          {},
          fmt::format("rank {} told so: look at what it said last", c->rank)});
  return {};
}

Status Driver::on_link_frame(const ConnectionPtr& c, const link::Frame& frame) {
  bool finished = false, owes = false, wakes = false;
  {
    Lock lock(mutex_);
    link::Link& link = peer(c->rank).link;
    const uint64_t before = link.inbox().messages();
    const bool held_back = link.outbox().held_back();
    link::Frame timed = frame;
    if (!options_.one_clock) timed.header.start = timed.header.departed = clock_.now();
    TRY(link.accept(c->part.connection, timed, clock_.now()));
    const uint64_t came = link.inbox().messages() - before;
    for (uint64_t i = 0; i < came && welcomed_; ++i) tell_news(c->rank);
    if (came > 0) changed_.notify_all();
    if (link.heard_goodbye(c->part.connection)) advance(c->incoming, Incoming::kGoodbye);
    finished = link.finished();
    owes = link.owes(c->part.connection, clock_.now());
    const link::Ledger* ledger = link.ledger(c->part.connection);
    wakes = ledger && ledger->wake() < c->life_at;
    const bool last = closing_ && frame.header.kind == link::FrameKind::kReceipt;  // perhaps
    if (last || (held_back && !link.outbox().held_back()))
      asio::post(io_, [this, rank = c->rank] { pump_all(rank); });
  }
  if (finished)
    end(c, {ErrorCode::kFailed, fmt::format("rank {} finished and closed its link", c->rank)});
  if (owes) pump(c);
  if (wakes && c->is_open()) look_after(c);
  return {};
}

void Driver::end_of_stream(const ConnectionPtr& c, link::Loss loss, const std::string& reason) {
  // A caller that sent nothing may have tested whether this port can be reached (dialling.h).
  const bool looked = c->dialed < 0 && c->meets < 0 && c->incoming == Incoming::kNothing;
  if (c->in_handshake() && c->incoming != Incoming::kIgnored && !looked)
    refuse(c, {ErrorCode::kLostPeer, "it hung up during the handshake"});  // killed, perhaps
  const bool cut = c->secure && !c->secure->heard_end();  // by an attacker, perhaps
  if (c->in_handshake()) return end(c, {});
  if (cut || !c->says_last() || !c->control.empty()) return lose(c, loss, reason);
  // After our own last words the peer hangs up in answer, one connection after the other.
  shut(c);
  bool last = false;
  {
    Lock lock(mutex_);
    Peer& p = peer(c->rank);
    p.connections.erase(c->part.connection);
    if (p.state == LinkState::kUp) advance(p.state, LinkState::kParting);
    last = p.connections.empty();
    changed_.notify_all();
  }
  if (last)
    end_link(c->rank, {ErrorCode::kFailed, fmt::format("rank {} closed its link", c->rank)});
}

// Closes this socket; what that means for the link is up to the callers.
void Driver::shut(const ConnectionPtr& c) {
  if (c->state != ConnectionState::kOver) advance(c->state, ConnectionState::kOver);
  c->handshake_timer.cancel();
  c->departure_timer.cancel();
  c->life_timer.cancel();
  asio::error_code ignored;
  if (c->secure &&
      c->writing != Writing::kBusy) {  // the other side may wait to hear that this was meant
    c->secure->say_end();
    c->secure->take(c->control_out);
    if (c->socket.is_open())
      ::send(c->socket.native_handle(), c->control_out.data(), c->control_out.size(),
             MSG_DONTWAIT | MSG_NOSIGNAL);
  }
  c->socket.close(ignored);
}

// Closes this connection and ends its link.
void Driver::end(const ConnectionPtr& c, const Error& error) {
  if (!c->is_open()) return;
  shut(c);
  known(c);
  if (c->rank >= 0) end_link(c->rank, error);
}

void Driver::known(const ConnectionPtr& c) {
  if (c->unauthenticated == 0) return;
  unauthenticated_.remove(c->unauthenticated);
  unauthenticated_by_number_.erase(std::exchange(c->unauthenticated, 0));
}

void Driver::end_link(int32_t rank, const Error& error) {
  Lock lock(mutex_);
  Peer& p = peer(rank);
  for (const auto& [number, other] : std::exchange(p.connections, {})) shut(other);
  for (const auto& [number, other] : std::exchange(p.redials, {})) shut(other);
  for (const auto& [number, other] : std::exchange(p.parked, {})) close_parked(other);
  p.grace_timer.cancel();
  changed_.notify_all();
  if (p.came_up()) {
    if (!p.ended()) {
      advance(p.state, LinkState::kEnded);
      p.end = error;
    }
    tell_news(rank);
    p.drop_queue(error.code == ErrorCode::kLostPeer);
  } else if (p.link.gathering().expecting() || p.through) {  // our own call, which link() ends
    p.unreachable = error;
  } else {
    p.link.gathering().start_over();
  }
}

}  // namespace tombolo::transport
