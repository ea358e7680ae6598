// How a connection becomes part of a link: accepting, dialing, the handshake, and refusals.
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>

#include "perform/link/splice.h"
#include "perform/transport/driver.h"
#include "perform/transport/tcp_state.h"

namespace tombolo::transport {
namespace {

using detail::Connection;
using detail::lost;
using detail::text;
using std::chrono::nanoseconds;

constexpr auto kDialAgain = std::chrono::milliseconds(20);
constexpr SimDuration kLogEvery{1'000'000'000};

// The other side says nothing more, even if not all that it said has been read.
bool hung_up(Connection& c) {
  pollfd socket{.fd = c.socket.native_handle(), .events = POLLRDHUP};
  return poll(&socket, 1, 0) == 1;
}

}  // namespace

void Driver::accept_next() {
  const auto c = std::make_shared<Connection>(io_);
  acceptor_.async_accept(c->socket, [this, c](asio::error_code error) {
    if (error) {  // out of file descriptors, mostly: others may end meanwhile
      accept_timer_.expires_after(std::chrono::milliseconds(100));
      accept_timer_.async_wait([this](asio::error_code) { accept_next(); });
      return;
    }
    welcome(c);
    const SimTime now = clock_.now();
    const SimTime room = unauthenticated_.room_at(now);
    if (room <= now) return accept_next();
    accept_timer_.expires_after(nanoseconds((room - now).ns));
    accept_timer_.async_wait([this](asio::error_code) { accept_next(); });
  });
}

// Begins an accepted connection, and evicts the one that unauthenticated_ names for it, if any.
void Driver::welcome(const ConnectionPtr& c) {
  asio::error_code ignored;
  const auto from = c->socket.remote_endpoint(ignored).address();
  c->unauthenticated = ++next_unauthenticated_;
  unauthenticated_by_number_[c->unauthenticated] = c;
  const auto goes = unauthenticated_.add(c->unauthenticated, from.to_string(), clock_.now());
  if (goes) evict(ConnectionPtr(unauthenticated_by_number_.at(*goes)));
  begin(c);
}

// Closes it at once: waiting for the other side would not free its place. Logs one line per second.
void Driver::evict(const ConnectionPtr& c) {
  const Error crowd = link::crowded();
  if (!c->secure) {
    const auto frame = link::failure_frame(options_.identity, crowd);
    ::send(c->socket.native_handle(), frame.data(), frame.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  }
  ++evicted_;
  const SimTime now = clock_.now();
  if (options_.log && (evicted_logged_.ns == 0 || now - evicted_logged_ >= kLogEvery)) {
    evicted_logged_ = now;
    options_.log(
        fmt::format("hung up on {} connections that said no hello, the last one from {}: {}",
                    std::exchange(evicted_, 0), c->remote, crowd.message));
  }
  end(c, {});
}

void Driver::dial(const ConnectionPtr& c) {
  if (!c->is_open()) return;
  asio::error_code ignored;
  c->socket.open(c->at.protocol(), ignored);  // async_connect opens it otherwise
  choose_congestion_control(c->socket.native_handle(), options_.congestion_control);
  if (c->recalls()) limit_handshake(c);
  c->socket.async_connect(c->at, [this, c](asio::error_code error) {
    if (!c->is_open()) return;
    if (!error) return c->meets >= 0 ? ask_for_peer(c) : begin(c);
    if (c->recalls()) return call_failed(c, error.message());
    asio::error_code ignored;
    c->socket.close(ignored);
    if (clock_.now() >= c->dial_until) return;  // link() words it
    c->departure_timer.expires_after(kDialAgain);
    c->departure_timer.async_wait([this, c](asio::error_code) { dial(c); });
  });
}

// Asks the coordinator to splice this call to the peer's, which may take long to come. After that it
// is a connection like any other, and the lower of the two ranks counts as the one that dialed.
void Driver::ask_for_peer(const ConnectionPtr& c) {
  const auto joined = [this, c](asio::error_code error, size_t) {
    if (!c->is_open()) return;
    if (!error && c->control_out[0] == link::kJoined) return begin(c);
    if (c->recalls()) return call_failed(c, "the coordinator hung up before the other side called");
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

// Called before the connection is made, because a socket that was paced once stays paced. Accepted
// sockets inherit it.
void Driver::choose_congestion_control(int socket, const std::string& name) {
  if (!name.empty() && !set_congestion_control(socket, name) && options_.log) {
    options_.log(fmt::format("TCP's congestion control stays the machine's, not {}: {}", name,
                             std::strerror(errno)));
  }
}

void Driver::begin(const ConnectionPtr& c) {
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
    link::Terms terms{.grace = options_.grace, .window = options_.inbox_max};
    if (c->recalls()) {
      Lock lock(mutex_);
      terms.resumes = peer(c->dialed).link.gathering().incarnation();
    }
    c->control.push_back(link::hello_frame(options_.identity, c->dialed, c->part, terms));
    pump(c);
  }
  read(c);
}

// Limits the wait for a hello; when refuse() calls it again, the wait until the other side hangs
// up. A connection that shook hands has as long until all others of its link have.
void Driver::limit_handshake(const ConnectionPtr& c) {
  c->handshake_timer.expires_after(nanoseconds(options_.handshake_max.ns));
  c->handshake_timer.async_wait([this, c](asio::error_code error) {
    if (error || !c->is_open()) return;
    const std::string limit = brief(seconds(options_.handshake_max));
    if (c->recalls() && c->in_handshake()) return call_failed(c, "no answer within " + limit);
    if (!c->in_handshake()) {
      {
        Lock lock(mutex_);
        if (peer(c->rank).came_up()) return;  // in the meantime
      }
      if (options_.log) {
        options_.log(
            fmt::format("gave up a link to rank {}: not all of its {} connections came "
                        "within {}",
                        c->rank, c->part.connections, limit));
      }
      return end(c, lost(c->rank, "not all of its connections came within " + limit));
    }
    if (c->incoming == Incoming::kIgnored) return end(c, {});
    // Where bytes wait to be read, this process was late, not the peer: it was suspended, perhaps.
    asio::error_code ignored;
    if (c->socket.available(ignored) > 0) return limit_handshake(c);
    const Error late{.message = fmt::format("it said no hello within {}", limit),
                     .cause = ErrorCause::kTooManyHandshakes};  // it may try again
    if (c->called() < 0) return refuse(c, late);
    // The process that we called may be suspended. When it resumes it would read our hello first, and
    // take a refusal after that for a frame of the link; so hang up without one.
    call_refused(c, late);
    shut(c);
  });
}

Status Driver::on_hello(const ConnectionPtr& c, const link::Frame& frame) {
  const link::Caller caller = TRY(link::check_hello(options_.identity, frame));
  if (c->dialed >= 0 && caller.rank != c->dialed)
    return failed(fmt::format("rank {} answered where rank {} was called", caller.rank, c->dialed));
  if (c->dialed >= 0 && caller.part != c->part)
    return failed(fmt::format("rank {} answered to another connection", caller.rank));
  // The caller gave up or ends: it logs that itself, and may call again.
  if (c->called() < 0 && caller.part.round == 0 && hung_up(*c)) {
    end(c, {});
    return {};
  }
  std::vector<ConnectionPtr> outdated;
  const Status joined = join(c, caller, outdated);
  for (const ConnectionPtr& other : outdated) shut(other);
  if (!joined && joined.error().cause == ErrorCause::kRestarted && c->in_handshake() &&
      !c->recalls())
    end_link(caller.rank, lost(caller.rank, "it was started again"));
  TRY(joined);
  if (c->dialed < 0)
    c->control.push_back(
        link::hello_frame(options_.identity, caller.rank, caller.part,
                          {.grace = options_.grace, .window = options_.inbox_max}));
  if (c->dialed >= 0 && c->part.connection == 0 && !c->recalls()) dial_others(c);
  return {};
}

Status Driver::join(const ConnectionPtr& c, const link::Caller& caller,
                    std::vector<ConnectionPtr>& outdated) {
  Lock lock(mutex_);
  Peer& p = peer(caller.rank);
  const bool again = p.link.resumable() && caller.part.round > 0;
  if (aborted_ || (closing_ && !again))
    return fail(aborted_ && again ? Error{ErrorCode::kFailed, reason_of_abort()}
                                  : link::about_to_end());
  if (p.ended() && again) return failed("the link is over: " + p.end.message);
  if (forsaken(p, caller)) begin_anew(p, outdated);
  if (c->recalls() && c->dialed >= 0) return rejoin(c, caller, p);
  if (c->dialed >= 0 && !p.link.gathering().expects(c->part.attempt))
    return failed("the attempt to link was given up");
  const bool is_second = options_.first_stays && p.came_up() && !p.connections.empty() &&
                         caller.incarnation != p.link.gathering().incarnation();
  const auto welcome =
      is_second ? Result<link::Gathering::Welcome>(fail(link::duplicate_rank(caller.rank)))
                : p.link.gathering().add(caller, p.link.resumable());
  if (!welcome) {
    if (options_.on_duplicate && welcome.error().cause == ErrorCause::kDuplicateRank)
      options_.on_duplicate(caller.rank);
    return fail(welcome.error());
  }
  if (*welcome == link::Gathering::Welcome::kResumed) {
    const auto before = p.connections.find(caller.part.connection);
    if (before != p.connections.end()) {  // its end was not noticed here
      outdated.push_back(before->second);
      detach(outdated.back(), link::Loss::kEnded, "the other side called again for it", p);
    }
    adopt(c, caller.part, p);
    return {};
  }
  if (*welcome == link::Gathering::Welcome::kJoinedAnew) {
    for (const auto& [number, other] : std::exchange(p.connections, {})) outdated.push_back(other);
  }
  c->link_as(caller.rank, caller.part);
  p.connections[c->part.connection] = c;
  known(c);
  if (!p.link.up()) return {};
  advance(p.state, LinkState::kUp);
  p.link.set_their_window(caller.terms.window);
  p.dialing.clear();
  for (const auto& [number, each] : p.connections) each->handshake_timer.cancel();
  if (options_.grace.ns > 0 && caller.terms.grace.ns > 0) make_resumable(p, caller.terms);
  changed_.notify_all();
  if (welcomed_) {
    asio::post(io_, [this, rank = c->rank] { prepare(rank); });
    tell_news(c->rank);
  }
  return {};
}

// The answer to a redial of ours.
Status Driver::rejoin(const ConnectionPtr& c, const link::Caller& caller, Peer& p) {
  TRY(p.link.gathering().check_again(caller));
  adopt(c, c->part, p);
  return {};
}

// A connection in place of one that was lost.
void Driver::adopt(const ConnectionPtr& c, const link::LinkPart& part, Peer& p) {
  const SimTime now = clock_.now();
  c->link_as(p.link.peer(), part);
  c->handshake_timer.cancel();
  known(c);
  p.connections[part.connection] = c;
  const auto call = p.redials.find(part.connection);
  if (call != p.redials.end()) {
    if (call->second != c) asio::post(io_, [this, other = call->second] { shut(other); });
    p.redials.erase(call);
  }
  if (const auto silent = p.parked.find(part.connection); silent != p.parked.end()) {
    close_parked(silent->second);
    p.parked.erase(silent);
  }
  p.link.resume(part.connection, now);
  const std::string story = p.recovery->back(part.connection, now);
  p.grace_timer.cancel();
  prepare(c, p);
  changed_.notify_all();
  if (options_.log)
    options_.log(fmt::format("connection {} of {} to rank {} is back; it was {}",
                             part.connection + 1, part.connections, c->rank, story));
  asio::post(io_, [this, c] {
    look_after(c);
    pump_all(c->rank);
  });
}

// A caller that waits too long for our hello hangs up and calls again; by then we may have made a link of its first
// call. Nothing was sent over that link, so the second call may replace it without loss. Only after welcome_all():
// then no thread of ours waits for a message of this link.
bool Driver::forsaken(const Peer& p, const link::Caller& caller) const {
  const link::Gathering& gathering = p.link.gathering();
  if (!welcomed_ || !p.is_up() || !p.link.untouched() || caller.part.round > 0 ||
      caller.incarnation != gathering.incarnation() || caller.part.attempt <= gathering.attempt())
    return false;
  return std::all_of(p.connections.begin(), p.connections.end(),
                     [](const auto& each) { return hung_up(*each.second); });
}

void Driver::begin_anew(Peer& p, std::vector<ConnectionPtr>& outdated) {
  for (auto* all : {&p.connections, &p.redials}) {
    for (const auto& [number, each] : std::exchange(*all, {})) outdated.push_back(each);
  }
  for (const auto& [number, each] : std::exchange(p.parked, {})) close_parked(each);
  p.link = link::Link(link_options(p.link.peer()));
  p.link.set_shape(p.shape);
  p.tuner.reset();
  p.recovery.reset();
  p.rounds.clear();
  p.grace_timer.cancel();
  p.timer_set = false;
  advance(p.state, LinkState::kDown);
}

void Driver::make_resumable(Peer& p, const link::Terms& theirs) {
  const SimTime now = clock_.now();
  const link::Gathering& gathering = p.link.gathering();
  p.link.make_resumable(now);
  const SimDuration grace = std::min(options_.grace, theirs.grace);
  const SimDuration ended = options_.ended_max.ns > 0 ? options_.ended_max : grace;
  p.recovery.emplace(link::Recovery::Graces{.silent = grace, .ended = std::min(ended, grace)},
                     gathering.connections(),
                     gathering.attempt() + static_cast<uint64_t>(options_.identity.rank));
  for (const auto& [number, each] : p.connections) {
    set_user_timeout(each->socket.native_handle(), options_.silence_max);
    asio::post(io_, [this, c = each] { look_after(c); });
  }
}

void Driver::dial_others(const ConnectionPtr& first) {
  std::vector<ConnectionPtr> others;
  {
    Lock lock(mutex_);
    others = peer(first->dialed).dialing;
  }
  for (const ConnectionPtr& c : others) {
    if (c != first) dial(c);
  }
}

// connect() fails, or calls again.
void Driver::call_refused(const ConnectionPtr& c, const Error& error) {
  Lock lock(mutex_);
  peer(c->called()).unreachable = Error{
      error.code,
      fmt::format("no link to rank {} {} {}: {}", c->called(),
                  c->meets >= 0 ? "through the coordinator at" : "at", c->remote, error.message),
      {},
      error.hint,
      {},
      error.cause};
  changed_.notify_all();
}

// Refuses a connection that is no peer's: reports why here and to the other side, which then hangs up.
void Driver::refuse(const ConnectionPtr& c, const Error& error) {
  if (!c->is_open() || c->incoming == Incoming::kIgnored) return;
  if (c->recalls()) return redial_refused(c, error);
  if (c->called() >= 0) {
    call_refused(c, error);
  } else if (options_.log) {
    const auto line = refusals_.add("refused a connection", c->remote, error.message, clock_.now());
    if (line) options_.log(*line);
  }
  limit_handshake(c);
  say_last(c, link::failure_frame(options_.identity, error));
}

}  // namespace tombolo::transport
