// How a link outlives its connections: losing one, redialing it, and the end of the grace. When to
// redial and when to give up is decided in recovery.h; what has to be sent again, in link.h.
#include <chrono>

#include "perform/transport/driver.h"

namespace tombolo::transport {
namespace {

using detail::Connection;
using detail::lost;
using std::chrono::nanoseconds;

// A frame may take this many times silence_max to come.
constexpr int64_t kSilencesInFrame = 6;

}  // namespace

// Closes or parks this connection. Its link ends too, unless it is resumable.
void Driver::lose(const ConnectionPtr& c, link::Loss loss, const std::string& why) {
  if (!c->is_open()) return;
  const int32_t rank = c->rank;
  bool goes_on = false, finished = false, parted = false;
  {
    Lock lock(mutex_);
    Peer& p = peer(rank);
    goes_on = p.link.resumable() && !p.ended() && !aborted_;
    if (goes_on) {
      detach(c, loss, why, p);
      finished = p.link.finished();
      parted = p.state == LinkState::kParting && p.connections.empty();
    }
  }
  if (!goes_on) return end(c, lost(rank, why));
  if (loss == link::Loss::kSilent && !finished && !parted) {
    park(c);
  } else {
    shut(c);
  }
  if (finished)
    return end_link(
        rank, {ErrorCode::kFailed, fmt::format("rank {} finished and closed its link", rank)});
  if (parted)
    return end_link(rank, {ErrorCode::kFailed, fmt::format("rank {} closed its link", rank)});
  recover(rank);
  pump_all(rank);
}

// What it carried goes back to the link. Under the mutex.
void Driver::detach(const ConnectionPtr& c, link::Loss loss, const std::string& why, Peer& p) {
  const uint32_t number = c->part.connection;
  const SimTime now = clock_.now();
  p.heard_at = std::max(p.heard_at, c->heard_at);
  p.bytes_out -= std::min<uint64_t>(c->data_out.payload.size(), p.bytes_out);
  p.timer_set = false;            // it may have been this one's
  if (p.tuner) p.tuner->pause();  // its sums lose a summand
  p.link.lose(number, now);
  p.recovery->lost(number, loss, why, now);
  p.connections.erase(number);
  changed_.notify_all();
}

// Keeps the socket of a silent connection open: the other side might notice a close, and conclude that
// this process has ended. It stays open until something comes over it, which shows that the other side
// hears; until another connection takes its place; or until the link ends.
void Driver::park(const ConnectionPtr& c) {
  advance(c->state, ConnectionState::kParked);
  c->handshake_timer.cancel();
  c->departure_timer.cancel();
  c->life_timer.cancel();
  Lock lock(mutex_);
  peer(c->rank).parked[c->part.connection] = c;
}

void Driver::close_parked(const ConnectionPtr& c) {
  if (c->state != ConnectionState::kParked) return;
  advance(c->state, ConnectionState::kOver);
  asio::error_code ignored;
  c->socket.close(ignored);
}

// Redials what is lost, if that is for this side to do, and waits for the end of the grace.
void Driver::recover(int32_t rank) {
  Lock lock(mutex_);
  Peer& p = peer(rank);
  if (p.ended() || aborted_) return;
  if (const auto over = p.recovery->over_at()) {
    p.grace_timer.expires_after(nanoseconds((*over - clock_.now()).ns));
    p.grace_timer.async_wait([this, rank](asio::error_code error) {
      if (error) return;
      std::string reason;
      {
        Lock lock(mutex_);
        const Peer& p = peer(rank);
        if (p.ended() || !p.recovery || !p.recovery->over_at()) return;
        reason = p.recovery->reason(clock_.now());
      }
      end_link(rank, lost(rank, reason));
    });
  }
  if (!p.calls) return;
  for (uint32_t i = 0; i < p.link.gathering().connections(); ++i) {
    if (p.recovery->is_lost(i) && !p.redials.contains(i)) redial(rank, i, p);
  }
}

void Driver::redial(int32_t rank, uint32_t connection, Peer& p) {
  const bool answers = p.through && rank < options_.identity.rank;
  const auto c = std::make_shared<Connection>(io_, Origin::kRecalled);
  c->dialed = answers ? -1 : rank;
  c->meets = p.through ? rank : -1;
  c->part = {.connection = connection,
             .connections = p.link.gathering().connections(),
             .attempt = p.link.gathering().attempt(),
             .round = ++p.rounds[connection]};
  c->at = *p.calls;
  p.redials[connection] = c;
  const SimDuration wait = p.recovery->call_at(connection) - clock_.now();
  c->departure_timer.expires_after(nanoseconds(wait.ns));
  c->departure_timer.async_wait([this, c](asio::error_code error) {
    if (!error) dial(c);
  });
}

// A redial failed; recovery.h decides when the next one is due.
void Driver::call_failed(const ConnectionPtr& c, const std::string& why) {
  if (!c->is_open()) return;
  const int32_t rank = c->called();
  shut(c);
  {
    Lock lock(mutex_);
    Peer& p = peer(rank);
    const auto call = p.redials.find(c->part.connection);
    if (call == p.redials.end() || call->second != c) return;
    p.redials.erase(call);
    p.recovery->failed_call(c->part.connection, why, clock_.now());
  }
  recover(rank);
}

// A peer that hung up, has too many callers or could not be read may answer the next redial. Any other
// refusal is final.
void Driver::redial_refused(const ConnectionPtr& c, const Error& error) {
  const int32_t rank = c->called();
  if (error.cause == ErrorCause::kRestarted) {
    shut(c);
    return end_link(rank, lost(rank, "it was started again"));
  }
  if (error.code == ErrorCode::kLostPeer || error.cause == ErrorCause::kTooManyHandshakes ||
      error.cause == ErrorCause::kDamagedOnTheWay)
    return call_failed(c, error.message);
  shut(c);
  end_link(rank, lost(rank, "it does not continue the link: " + error.message));
}

// --- Silence ------------------------------------------------------------------------------------

// Sleeps until the connection owes a receipt or a ping, or has been silent for too long.
void Driver::look_after(const ConnectionPtr& c) {
  if (!c->is_open()) return;
  const SimTime now = clock_.now();
  {
    Lock lock(mutex_);
    link::Ledger* const ledger = peer(c->rank).link.ledger(c->part.connection);
    if (!ledger) return;
    if (c->heard_at.ns == 0) c->heard_at = now;
    c->life_at = ledger->wake();
    // What was due and could not be said is said when the connection can write again.
    if (c->life_at <= now) c->life_at = now + SimDuration{options_.ping_every.ns / 8 + 1};
  }
  c->life_timer.expires_after(nanoseconds((c->life_at - now).ns));
  c->life_timer.async_wait([this, c](asio::error_code error) {
    if (!error && c->is_open()) check_life(c);
  });
}

void Driver::check_life(const ConnectionPtr& c) {
  bool silent = false;
  {
    Lock lock(mutex_);
    link::Ledger* const ledger = peer(c->rank).link.ledger(c->part.connection);
    if (!ledger) return;
    ledger->heard(c->heard_at);
    silent = c->incoming != Incoming::kGoodbye && ledger->silent(clock_.now());
  }
  asio::error_code ignored;
  // Where bytes wait to be read, this process was late, not the peer: it was suspended, perhaps.
  if (silent && c->socket.available(ignored) == 0)
    return lose(c, link::Loss::kSilent, "nothing came for " + brief(seconds(options_.silence_max)));
  // After a length that was damaged on the way, past TCP's checksum, the decoder waits for that many
  // bytes; where only pings come, that would take hours.
  const SimDuration frame_max{options_.silence_max.ns * kSilencesInFrame};
  if (c->heard_at - c->frame_at > frame_max)
    return lose(c, link::Loss::kEnded,
                fmt::format("no frame was whole within {}", brief(seconds(frame_max))));
  pump(c);
  look_after(c);
}

}  // namespace tombolo::transport
