#include "perform/transport/endpoint.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/check.h"
#include "base/parallel.h"
#include "perform/transport/address.h"
#include "perform/transport/driver.h"
#include "perform/transport/receive_timeout.h"

namespace tombolo::transport {
namespace {

using asio::ip::tcp;
using detail::Connection;
using detail::text;
using std::chrono::nanoseconds;

Result<tcp::endpoint> allowed(const std::string& name, uint16_t port,
                              const Endpoint::Options& options) {
  const std::string host = name == "localhost" ? "127.0.0.1" : name;
  if (!options.credentials && !options.plain_tcp) TRY(check_stays_here(host, options.network));
  asio::error_code error;
  const auto address = asio::ip::make_address(host, error);
  if (error) return unusable(fmt::format("\"{}\": {}", host, error.message()));
  return tcp::endpoint(address, port);
}

// Names an attempt to link: later ones are greater, also those of another process. It is the instant
// of the call: the wall clock as read at this process's first call, advanced by the monotonic clock.
// So a wall clock that is set back does not make a call older than the one before.
uint64_t attempt_now() {
  const SystemClock clock;
  static const int64_t wall_at_origin =
      std::chrono::duration_cast<nanoseconds>(std::chrono::system_clock::now().time_since_epoch())
          .count() -
      clock.now().ns;
  return static_cast<uint64_t>(wall_at_origin + clock.now().ns);
}

Error no_link(int32_t rank) {
  return {ErrorCode::kFailed, fmt::format("there is no link to rank {}", rank)};
}

}  // namespace

// --- What callers see ---------------------------------------------------------------------------

Status Driver::listen() {
  if (options_.credentials) secure_ = TRY(trust::SecureContext::create(*options_.credentials));
  tcp::endpoint at = TRY(allowed(options_.listen_address, options_.port, options_));
  asio::error_code error = listen_at(at);
  while (error == asio::error::address_in_use && at.port() < options_.port_last) {
    at.port(static_cast<uint16_t>(at.port() + 1));
    error = listen_at(at);
  }
  if (error == asio::error::address_in_use && options_.port_last > options_.port) {
    return unusable(fmt::format("ports {} to {} on {} are taken", options_.port, options_.port_last,
                                at.address().to_string()),
                    "a wider range: --ports FIRST-LAST");
  }
  if (error == asio::error::address_in_use)
    return unusable(fmt::format("port {} on {} is taken", at.port(), at.address().to_string()),
                    "stop the program that listens there, or give another port (0: any free one)");
  if (error.value() == EADDRNOTAVAIL)
    return unusable(fmt::format("{} is no address of this host", at.address().to_string()),
                    "one of those that `ip address` shows; it may have changed");
  if (error)
    return unusable(fmt::format("cannot listen on {}: {}", text(at), error.message()),
                    "give another port (0: any free one)");
  port_ = acceptor_.local_endpoint(error).port();
  accept_next();
  thread_ = start_without_signals([this] { io_.run(); });
  return {};
}

asio::error_code Driver::listen_at(const tcp::endpoint& at) {
  asio::error_code error;
  if (acceptor_.is_open()) acceptor_.close(error);
  acceptor_.open(at.protocol(), error);
  if (!error) acceptor_.set_option(asio::socket_base::reuse_address(true), error);
  if (!error) choose_congestion_control(acceptor_.native_handle(), options_.congestion_control);
  if (!error) acceptor_.bind(at, error);
  if (!error) acceptor_.listen(asio::socket_base::max_listen_connections, error);
  return error;
}

Driver::Peer& Driver::peer(int32_t rank) {
  return peers_.try_emplace(rank, io_, link_options(rank)).first->second;
}

link::Link::Options Driver::link_options(int32_t rank) const {
  return {.self = options_.identity,
          .peer = rank,
          .message_max = options_.message_max,
          .window = options_.inbox_max,
          .ledger = {.receipt_after = options_.receipt_after,
                     .ping_every = options_.ping_every,
                     .silence_max = options_.silence_max}};
}

// Until something changed or the deadline came; callers look again. The condition's clock and ours
// run at the same pace; a far deadline is cut so that the sum below cannot overflow.
void Driver::wait(Lock& lock, SimTime deadline) {
  constexpr int64_t kHour = 3'600'000'000'000;
  const int64_t now = clock_.now().ns;
  if (deadline.ns <= now) return;
  changed_.wait_until(lock, std::chrono::steady_clock::now() +
                                nanoseconds(deadline.ns - now > kHour ? kHour : deadline.ns - now));
}

Status Driver::connect(int32_t rank, const std::string& host, uint16_t port,
                       const link::LinkShape& shape, SimTime deadline) {
  return link(rank, shape, TRY(allowed(host, port, options_)), false, deadline);
}

Status Driver::await_peer(int32_t rank, const link::LinkShape& shape, SimTime deadline) {
  return link(rank, shape, std::nullopt, false, deadline);
}

Status Driver::meet(int32_t rank, const std::string& host, uint16_t port,
                    const link::LinkShape& shape, SimTime deadline) {
  return link(rank, shape, TRY(allowed(host, port, options_)), true, deadline);
}

Status Driver::link(int32_t rank, const link::LinkShape& shape, std::optional<tcp::endpoint> dial,
                    bool through, SimTime deadline) {
  TRY(shape.check());
  const link::Identity& self = options_.identity;
  if (rank < 0 || rank >= self.ranks || rank == self.rank)
    return failed(
        fmt::format("rank {} of {} cannot be linked to rank {}", self.rank, self.ranks, rank));
  Lock lock(mutex_);
  if (aborted_) return fail(*aborted_);
  Peer& p = peer(rank);
  if (p.claimed()) return failed(fmt::format("there is a link to rank {} already", rank));
  advance(p.told, Told::kClaimed);
  p.shape = shape;
  p.through = through;
  p.link.set_shape(shape);
  const SimTime readable_by = clock_.now() + options_.handshake_max;
  do {
    if (dial) call(rank, p, *dial, deadline);
    while (!p.came_up() && !p.unreachable && !aborted_ && clock_.now() < deadline)
      wait(lock, deadline);
  } while (dial && call_again_later(lock, p, readable_by, deadline));
  if (p.came_up()) {
    asio::post(io_, [this, rank] { prepare(rank); });
    return {};
  }
  const Error error = unlinked(rank, p, dial);
  advance(p.told, Told::kUnclaimed);
  p.unreachable.reset();
  if (dial) uncall(p, error);
  return fail(error);
}

Error Driver::unlinked(int32_t rank, const Peer& p,
                       const std::optional<tcp::endpoint>& dial) const {
  if (aborted_) return *aborted_;
  if (p.unreachable) return *p.unreachable;
  const std::string what = p.through ? fmt::format("call the coordinator at {}", text(*dial))
                           : dial    ? fmt::format("answer at {}", text(*dial))
                                     : "call";
  return {ErrorCode::kLostPeer, fmt::format("rank {} did not {} in time", rank, what)};
}

// Ends the calls of this attempt; an answer that comes later is not taken.
void Driver::uncall(Peer& p, const Error& error) {
  p.link.gathering().start_over();
  asio::post(io_, [this, gone = std::exchange(p.dialing, {}), error] {
    for (const ConnectionPtr& c : gone) end(c, error);
  });
}

// Waits before another call, where the refusal is not final: the other side has too many callers, or
// a packet of the handshake was damaged. Damage that lasts beyond `readable_by` is no accident, and
// final. True: now is the time to call again.
bool Driver::call_again_later(Lock& lock, Peer& p, SimTime readable_by, SimTime deadline) {
  if (p.came_up() || aborted_ || !p.unreachable) return false;
  const ErrorCause cause = p.unreachable->cause;
  const bool damaged = cause == ErrorCause::kDamagedOnTheWay && clock_.now() < readable_by;
  if (!damaged && cause != ErrorCause::kTooManyHandshakes) return false;
  uncall(p, *p.unreachable);
  // Where many were refused together they shall not come back together.
  const SimDuration pause{50'000'000 + static_cast<int64_t>(attempt_now() % 100'000'000)};
  const SimTime again = clock_.now() + pause;
  while (!aborted_ && clock_.now() < std::min(again, deadline))
    wait(lock, std::min(again, deadline));
  if (aborted_ || clock_.now() >= deadline) return false;
  p.unreachable.reset();
  return true;
}

// Calls the first connection; its answer calls the others. The side that answers through a splice
// calls with all at once, so that each is there when the other side calls.
void Driver::call(int32_t rank, Peer& p, const tcp::endpoint& at, SimTime deadline) {
  const uint64_t attempt = attempt_now();
  p.calls = at;
  const bool answers = p.through && rank < options_.identity.rank;
  if (!answers) p.link.gathering().expect(attempt, p.shape.connections);
  for (uint32_t i = 0; i < p.shape.connections; ++i) {
    const auto c = std::make_shared<Connection>(io_, Origin::kCalled);
    c->dialed = answers ? -1 : rank;
    c->meets = p.through ? rank : -1;
    c->part = {.connection = i, .connections = p.shape.connections, .attempt = attempt};
    c->at = at;
    c->dial_until = deadline;
    p.dialing.push_back(c);
  }
  for (const ConnectionPtr& c : p.dialing) {
    if (answers || c == p.dialing.front()) asio::post(io_, [this, c] { this->dial(c); });
  }
}

void Driver::check_rank(int32_t rank) const {
  CHECK(rank >= 0 && rank < options_.identity.ranks, "there is no rank {} of {}", rank,
        options_.identity.ranks);
}

Status Driver::send(int32_t rank, link::Tag tag, link::Payload payload, link::Urgency urgency) {
  check_rank(rank);
  if (payload.size() > options_.message_max)
    return failed(fmt::format("{} has {} bytes, the limit is {}", link::text(tag), payload.size(),
                              options_.message_max));
  Lock lock(mutex_);
  if (aborted_) return fail(*aborted_);
  if (rank == options_.identity.rank) {
    const SimTime now = clock_.now();
    own_.add({tag, std::move(payload), now, now}, now);
    changed_.notify_all();
    return {};
  }
  const auto at = peers_.find(rank);
  if (at == peers_.end() || !at->second.claimed()) return fail(no_link(rank));
  Peer& p = at->second;
  await_room(lock, p, payload.size());
  if (aborted_) return fail(*aborted_);
  if (p.ended()) return fail(p.end);
  if (!p.came_up() || closing_) return fail(no_link(rank));
  const bool idle = p.link.outbox().empty();  // otherwise the io thread comes by anyway
  p.link.outbox().push(tag, std::move(payload), urgency, clock_.now());
  if (idle) asio::post(io_, [this, rank] { pump_all(rank); });
  return {};
}

// While send() waits for room, all peers get credit as if a receive() waited for each of them.
void Driver::await_room(Lock& lock, Peer& p, uint64_t bytes) {
  const auto full = [&] {
    const uint64_t queued = p.link.outbox().queued_bytes();
    return queued > 0 && queued + bytes > options_.outbox_max;
  };
  if (!full()) return;
  ++waiting_for_room_;
  while (full() && p.is_up() && !aborted_ && !closing_) {
    std::vector<Peer*> all;
    for (auto& [rank, each] : peers_) all.push_back(&each);
    wait_for(lock, all, kNever);
  }
  --waiting_for_room_;
}

// For messages of these peers: one that has no credit may hold what is awaited.
void Driver::wait_for(Lock& lock, const std::vector<Peer*>& peers, SimTime deadline) {
  for (Peer* p : peers) {
    p->link.begin_waiting();
    tell_credit(*p);
  }
  wait(lock, deadline);
  for (Peer* p : peers) p->link.end_waiting();
}

void Driver::tell_credit(const Peer& p) {
  if (!p.is_up() || !p.link.owes_credit()) return;
  asio::post(io_, [this, rank = p.link.peer()] { pump_all(rank); });
}

Result<Endpoint::Came> Driver::receive_any(std::span<const Awaited> wanted, SimTime deadline) {
  CHECK(!wanted.empty(), "a wait for nothing");
  for (const Awaited& each : wanted) check_rank(each.peer);
  Lock lock(mutex_);
  while (true) {
    const SimTime now = clock_.now();
    SimTime again = deadline;
    std::optional<Error> gone;
    std::vector<Peer*> awaited;
    for (size_t i = 0; i < wanted.size(); ++i) {
      const auto& [rank, tag] = wanted[i];
      const bool own = rank == options_.identity.rank;
      const auto at = peers_.find(rank);
      if (!own && (at == peers_.end() || !at->second.claimed()))
        return fail(aborted_ ? *aborted_ : no_link(rank));
      if (aborted_) return fail(*aborted_);
      link::Inbox& inbox = own ? own_ : at->second.link.inbox();
      const SimDuration delay = own ? SimDuration{} : at->second.shape.delay;
      const auto due = inbox.due(tag, delay);  // what came before a loss counts
      if (due && *due <= now) {
        Came came{i, inbox.take(tag, delay)};
        if (!own) tell_credit(at->second);
        return came;
      }
      if (due) again = std::min(again, *due);
      if (!due && !own) awaited.push_back(&at->second);
      if (!due && !own && at->second.ended() && !gone)
        gone = Error(at->second.end).during("waiting for " + link::text(tag));
    }
    if (gone) return fail(*gone);
    if (now >= deadline) {
      const auto& [rank, tag] = wanted.front();
      return fail(receive_timeout(rank, tag));
    }
    wait_for(lock, awaited, again);
  }
}

// Ranks that have connected already are news at once.
void Driver::welcome_all(link::Tag tag) {
  Lock lock(mutex_);
  CHECK(!welcomed_, "all are welcome already");
  welcomed_ = tag;
  for (int32_t rank = 0; rank < options_.identity.ranks; ++rank) {
    if (rank == options_.identity.rank) continue;
    Peer& p = peer(rank);
    CHECK(!p.claimed(), "there is a link to rank {} already", rank);
    advance(p.told, Told::kClaimed);
    p.link.set_shape(p.shape);
    if (!p.came_up()) continue;
    asio::post(io_, [this, rank] { prepare(rank); });
    news_.insert(news_.end(), 1 + p.link.inbox().messages() + (p.ended() ? 1 : 0), rank);
  }
}

// Under the mutex: there may be news of this rank.
void Driver::tell_news(int32_t rank) {
  if (!welcomed_) return;
  news_.push_back(rank);
  changed_.notify_all();
}

std::optional<Endpoint::News> Driver::news_of(int32_t rank) {
  Peer& p = peer(rank);
  if (!p.came_up() || p.told == Told::kEnd) return std::nullopt;
  if (p.told != Told::kUp) {
    advance(p.told, Told::kUp);
    return News{rank, Up{}};
  }
  link::Inbox& inbox = p.link.inbox();
  if (inbox.due(*welcomed_, {})) {
    News news{rank, inbox.take(*welcomed_, {})};
    tell_credit(p);
    return news;
  }
  if (!p.ended()) return std::nullopt;
  advance(p.told, Told::kEnd);
  return News{rank, p.end};
}

// news_ holds a rank once for each of its messages, once when it came up and once when it ended;
// each entry returns whatever is due first of that rank. Where news come right after each other, a
// wake-up for each costs more than its handling: so this sleeps up to kTogether and then returns
// them one by one.
Result<Endpoint::News> Driver::next(SimTime deadline) {
  constexpr SimDuration kTogether{2'000'000};
  Lock lock(mutex_);
  CHECK(welcomed_, "no peer was welcomed");
  while (true) {
    if (aborted_) return fail(*aborted_);
    while (!news_.empty()) {
      const int32_t rank = news_.front();
      news_.pop_front();
      if (auto news = news_of(rank)) return std::move(*news);
    }
    const SimTime dry = clock_.now();
    if (dry >= deadline) return failed("there was no news in time");
    if (std::exchange(news_are_dense_, false)) {
      lock.unlock();
      std::this_thread::sleep_for(nanoseconds(std::min(deadline - dry, kTogether).ns));
      lock.lock();
      news_are_dense_ = !news_.empty();
    } else {
      wait(lock, deadline);
      news_are_dense_ = clock_.now() - dry < kTogether;
    }
  }
}

uint64_t Driver::queued_bytes() const {
  Lock lock(mutex_);
  uint64_t sum = 0;
  for (const auto& [rank, p] : peers_) sum += p.queued_bytes();
  return sum;
}

// Sockets are the io thread's, so it is asked.
std::vector<link::LinkStatistics> Driver::statistics() {
  const auto answer = std::make_shared<std::optional<std::vector<link::LinkStatistics>>>();
  Lock lock(mutex_);
  if (!thread_.joinable() || closing_) return {};
  asio::post(io_, [this, answer] {
    Lock lock(mutex_);
    *answer = look();
    changed_.notify_all();
  });
  const SimTime deadline = clock_.now() + SimDuration{1'000'000'000};
  while (!*answer && !closing_ && clock_.now() < deadline) wait(lock, deadline);
  return answer->value_or(std::vector<link::LinkStatistics>());
}

Status Driver::drained(int32_t rank, const Peer& p) const {
  if (p.dropped && p.ended()) return fail(Error(p.end).during("sending what was queued for it"));
  if (!p.idle())
    return failed(
        fmt::format("rank {} did not take the last {} bytes in time", rank, p.queued_bytes()));
  if (!p.ended() && !p.delivered())
    return failed(fmt::format("rank {} did not confirm the last {} bytes in time", rank,
                              p.link.kept_bytes()));
  return {};
}

Status Driver::flush(SimTime deadline) {
  Lock lock(mutex_);
  for (const auto& [rank, p] : peers_) {
    const auto busy = [&p = p] { return !p.idle() || (p.dropped && !p.ended()); };
    while (busy() && !aborted_ && clock_.now() < deadline) wait(lock, deadline);
    if (aborted_) return fail(*aborted_);
    if (p.dropped || !p.idle()) TRY(drained(rank, p));
  }
  return {};
}

std::string Driver::reason_of_abort() const {
  if (aborted_->code == ErrorCode::kLostPeer) return aborted_->message;
  return fmt::format("rank {} gave up: {}", options_.identity.rank, aborted_->message);
}

void Driver::abort(Error error) {
  Lock lock(mutex_);
  if (aborted_) return;  // the first reason is the reason
  aborted_ = error;
  changed_.notify_all();
  const std::string reason = reason_of_abort();
  for (auto& [rank, p] : peers_) {
    p.link.outbox().clear();
    for (const auto& [number, c] : p.connections)
      asio::post(io_, [this, c = c, reason] {
        say_last(c, link::failure_frame(options_.identity, {.message = reason}));
      });
  }
}

Status Driver::close(SimTime deadline) {
  Status status;
  {
    Lock lock(mutex_);
    closing_ = true;
    for (auto& [rank, p] : peers_) {
      p.link.close();
      asio::post(io_, [this, rank = rank] { pump_all(rank); });
    }
    for (auto& [rank, p] : peers_) {
      // A resumable link without connections may come back, and the peer then gets the goodbye.
      const auto lives = [&, &p = p] {
        return !p.connections.empty() || (p.link.resumable() && !p.ended() && !aborted_);
      };
      while (lives() && clock_.now() < deadline) wait(lock, deadline);
      if (status && aborted_) status = fail(*aborted_);
      if (status) status = drained(rank, p);
    }
    if (!aborted_) aborted_ = Error{ErrorCode::kFailed, "the endpoint is closed"};
    changed_.notify_all();
  }
  stop();
  return status;
}

void Driver::stop() {
  if (!thread_.joinable()) return;
  io_.stop();
  thread_.join();
  asio::error_code ignored;
  acceptor_.close(ignored);
  Lock lock(mutex_);
  for (auto& [rank, p] : peers_) {
    p.connections.clear();
    p.dialing.clear();
    p.redials.clear();
    p.parked.clear();
  }
}

// --- Options and creation -----------------------------------------------------------------------

Status Endpoint::Options::check() const {
  if (identity.ranks < 1 || identity.rank < 0 || identity.rank >= identity.ranks)
    return failed(fmt::format("rank {} of {} ranks", identity.rank, identity.ranks));
  if (grace.ns < 0 || ended_max.ns < 0)
    return failed(fmt::format("a grace of {} ns, of {} ns at an end", grace.ns, ended_max.ns));
  if (ping_every.ns <= 0 || silence_max.ns < 2 * ping_every.ns)
    return failed(fmt::format("a ping every {} ns and silence for {} ns at most: two fit into one",
                              ping_every.ns, silence_max.ns));
  if (inbox_max < link::kCreditWindowMin)
    return failed(fmt::format("an inbox of {} bytes", inbox_max));
  if (handshake_max.ns <= 0) return failed(fmt::format("handshake_max is {} ns", handshake_max.ns));
  return {};
}

Result<std::unique_ptr<Endpoint>> Endpoint::create(Options options, const Clock& clock) {
  TRY(options.check());
  auto driver = std::make_unique<Driver>(std::move(options), clock);
  TRY(driver->listen());
  return driver;
}

namespace {

class SystemSockets : public Sockets {
 public:
  Result<std::unique_ptr<Endpoint>> open(Endpoint::Options options, Clock& clock) override {
    return Endpoint::create(std::move(options), clock);
  }
  bool takes_connections(const Address& at, SimDuration patience) override {
    return transport::takes_connections(at, patience);
  }
};

}  // namespace

Sockets& system_sockets() {
  static SystemSockets sockets;
  return sockets;
}

}  // namespace tombolo::transport
