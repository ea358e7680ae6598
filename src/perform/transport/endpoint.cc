#include "perform/transport/endpoint.h"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <utility>

#include "base/check.h"
#include "perform/transport/address.h"
#include "perform/transport/driver.h"

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

// Names an attempt to link: later ones are greater, also those of another process.
uint64_t attempt_now() {
  return static_cast<uint64_t>(
      std::chrono::duration_cast<nanoseconds>(std::chrono::system_clock::now().time_since_epoch())
          .count());
}

Error no_link(int32_t rank) {
  return {ErrorCode::kFailed, fmt::format("there is no link to rank {}", rank)};
}

}  // namespace

// --- What callers see ---------------------------------------------------------------------------

Status Endpoint::Driver::listen() {
  if (options_.credentials) secure_ = TRY(trust::SecureContext::create(*options_.credentials));
  const tcp::endpoint at = TRY(allowed(options_.listen_address, options_.port, options_));
  asio::error_code error;
  acceptor_.open(at.protocol(), error);
  if (!error) acceptor_.set_option(asio::socket_base::reuse_address(true), error);
  if (!error) choose_congestion_control(acceptor_.native_handle(), options_.congestion_control);
  if (!error) acceptor_.bind(at, error);
  if (!error) acceptor_.listen(asio::socket_base::max_listen_connections, error);
  if (error == asio::error::address_in_use)
    return unusable(fmt::format("port {} on {} is taken", at.port(), at.address().to_string()),
                    "stop the program that listens there, or give another port (0: any free one)");
  if (error)
    return unusable(fmt::format("cannot listen on {}: {}", text(at), error.message()),
                    "give another port (0: any free one)");
  port_ = acceptor_.local_endpoint(error).port();
  accept_next();
  sigset_t all, before;  // signals are for the program's own threads
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  thread_ = std::thread([this] { io_.run(); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return {};
}

Endpoint::Driver::Peer& Endpoint::Driver::peer(int32_t rank) {
  return peers_
      .try_emplace(rank, link::Link::Options{.self = options_.identity,
                                             .peer = rank,
                                             .message_max = options_.message_max})
      .first->second;
}

// Until something changed or the deadline came; callers look again. The condition's clock and ours
// run at the same pace; a far deadline is cut so that the sum below cannot overflow.
void Endpoint::Driver::wait(Lock& lock, SimTime deadline) {
  constexpr int64_t kHour = 3'600'000'000'000;
  const int64_t now = clock_.now().ns;
  if (deadline.ns <= now) return;
  changed_.wait_until(lock, std::chrono::steady_clock::now() +
                                nanoseconds(deadline.ns - now > kHour ? kHour : deadline.ns - now));
}

Status Endpoint::Driver::dial(int32_t rank, const link::LinkShape& shape, const std::string& host,
                              uint16_t port, SimTime deadline) {
  return link(rank, shape, TRY(allowed(host, port, options_)), false, deadline);
}

Status Endpoint::Driver::meet(int32_t rank, const link::LinkShape& shape, const std::string& host,
                              uint16_t port, SimTime deadline) {
  return link(rank, shape, TRY(allowed(host, port, options_)), true, deadline);
}

Status Endpoint::Driver::link(int32_t rank, const link::LinkShape& shape,
                              std::optional<tcp::endpoint> dial, bool through, SimTime deadline) {
  TRY(shape.check());
  const link::Identity& self = options_.identity;
  if (rank < 0 || rank >= self.ranks || rank == self.rank)
    return failed(
        fmt::format("rank {} of {} cannot be linked to rank {}", self.rank, self.ranks, rank));
  Lock lock(mutex_);
  if (aborted_) return fail(*aborted_);
  Peer& p = peer(rank);
  if (p.claimed) return failed(fmt::format("there is a link to rank {} already", rank));
  p.claimed = true;
  p.shape = shape;
  p.through = through;
  p.link.set_shape(shape);
  if (dial) call(rank, p, *dial, deadline);
  while (!p.up && !p.unreachable && !aborted_ && clock_.now() < deadline) wait(lock, deadline);
  if (p.up) {
    asio::post(io_, [this, rank] { prepare(rank); });
    return {};
  }
  const Error error =
      aborted_        ? *aborted_
      : p.unreachable ? *p.unreachable
      : through       ? Error{ErrorCode::kLostPeer,
                        fmt::format("rank {} did not call the coordinator at {} in time", rank,
                                          text(*dial))}
      : dial          ? Error{ErrorCode::kLostPeer,
                     fmt::format("rank {} did not answer at {} in time", rank, text(*dial))}
             : Error{ErrorCode::kLostPeer, fmt::format("rank {} did not call in time", rank)};
  p.claimed = false;
  p.unreachable.reset();
  if (dial) {
    p.link.gathering().start_over();  // an answer that is still to come finds nobody
    asio::post(io_, [this, gone = std::exchange(p.dialing, {}), error] {
      for (const ConnectionPtr& c : gone) end(c, error);
    });
  }
  return fail(error);
}

// Calls the first connection; its answer calls the others. Who answers through a splice calls with
// all, to be there for the other side.
void Endpoint::Driver::call(int32_t rank, Peer& p, const tcp::endpoint& at, SimTime deadline) {
  const uint64_t attempt = attempt_now();
  const bool answers = p.through && rank < options_.identity.rank;
  if (!answers) p.link.gathering().expect(attempt, p.shape.connections);
  for (uint32_t i = 0; i < p.shape.connections; ++i) {
    const auto c = std::make_shared<Connection>(io_);
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

void Endpoint::Driver::check_rank(int32_t rank) const {
  CHECK(rank >= 0 && rank < options_.identity.ranks, "there is no rank {} of {}", rank,
        options_.identity.ranks);
}

Status Endpoint::Driver::send(int32_t rank, link::Tag tag, link::Payload payload,
                              link::Urgency urgency) {
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
  if (at == peers_.end() || !at->second.claimed) return fail(no_link(rank));
  Peer& p = at->second;
  if (p.ended) return fail(*p.ended);
  if (!p.up || closing_) return fail(no_link(rank));
  const bool idle = p.link.outbox().empty();  // otherwise the io thread comes by anyway
  p.link.outbox().push(tag, std::move(payload), urgency, clock_.now());
  if (idle) asio::post(io_, [this, rank] { pump_all(rank); });
  return {};
}

Result<Endpoint::Came> Endpoint::Driver::receive_any(std::span<const Awaited> wanted,
                                                     SimTime deadline) {
  CHECK(!wanted.empty(), "a wait for nothing");
  for (const Awaited& each : wanted) check_rank(each.peer);
  Lock lock(mutex_);
  while (true) {
    const SimTime now = clock_.now();
    SimTime again = deadline;
    std::optional<Error> gone;
    for (size_t i = 0; i < wanted.size(); ++i) {
      const auto& [rank, tag] = wanted[i];
      const bool own = rank == options_.identity.rank;
      const auto at = peers_.find(rank);
      if (!own && (at == peers_.end() || !at->second.claimed))
        return fail(aborted_ ? *aborted_ : no_link(rank));
      if (aborted_) return fail(*aborted_);
      link::Inbox& inbox = own ? own_ : at->second.link.inbox();
      const SimDuration delay = own ? SimDuration{} : at->second.shape.delay;
      const auto due = inbox.due(tag, delay);  // what came before a loss counts
      if (due && *due <= now) return Came{i, inbox.take(tag, delay)};
      if (due) again = std::min(again, *due);
      if (!due && !own && at->second.ended && !gone)
        gone = Error(*at->second.ended).during("waiting for " + link::text(tag));
    }
    if (gone) return fail(*gone);
    if (now >= deadline) {
      const auto& [rank, tag] = wanted.front();
      return failed(fmt::format("rank {} did not send {} in time", rank, link::text(tag)));
    }
    wait(lock, again);
  }
}

uint64_t Endpoint::Driver::queued_bytes() {
  Lock lock(mutex_);
  uint64_t sum = 0;
  for (const auto& [rank, p] : peers_) sum += p.queued_bytes();
  return sum;
}

// Sockets are the io thread's, so it is asked.
std::vector<link::LinkStatistics> Endpoint::Driver::statistics() {
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

Status Endpoint::Driver::drained(int32_t rank, const Peer& p) const {
  if (p.dropped && p.ended) return fail(Error(*p.ended).during("sending what was queued for it"));
  if (!p.idle())
    return failed(
        fmt::format("rank {} did not take the last {} bytes in time", rank, p.queued_bytes()));
  return {};
}

Status Endpoint::Driver::flush(SimTime deadline) {
  Lock lock(mutex_);
  for (const auto& [rank, p] : peers_) {
    const auto busy = [&p = p] { return !p.idle() || (p.dropped && !p.ended); };
    while (busy() && !aborted_ && clock_.now() < deadline) wait(lock, deadline);
    if (aborted_) return fail(*aborted_);
    TRY(drained(rank, p));
  }
  return {};
}

void Endpoint::Driver::abort(Error error) {
  Lock lock(mutex_);
  if (aborted_) return;  // the first reason is the reason
  aborted_ = error;
  changed_.notify_all();
  const std::string reason =
      error.code == ErrorCode::kLostPeer
          ? error.message
          : fmt::format("rank {} gave up: {}", options_.identity.rank, error.message);
  for (auto& [rank, p] : peers_) {
    p.link.outbox().clear();
    for (const auto& [number, c] : p.connections)
      asio::post(io_, [this, c = c, reason] {
        say_last(c, link::failure_frame(options_.identity, reason));
      });
  }
}

Status Endpoint::Driver::close(SimTime deadline) {
  Status status;
  {
    Lock lock(mutex_);
    closing_ = true;
    for (auto& [rank, p] : peers_) {
      p.link.close();
      asio::post(io_, [this, rank = rank] { pump_all(rank); });
    }
    for (auto& [rank, p] : peers_) {
      while (!p.connections.empty() && clock_.now() < deadline) wait(lock, deadline);
      if (status && aborted_) status = fail(*aborted_);
      if (status) status = drained(rank, p);
    }
    if (!aborted_) aborted_ = Error{ErrorCode::kFailed, "the endpoint is closed"};
    changed_.notify_all();
  }
  stop();
  return status;
}

void Endpoint::Driver::stop() {
  if (!thread_.joinable()) return;
  io_.stop();
  thread_.join();
  asio::error_code ignored;
  acceptor_.close(ignored);
  Lock lock(mutex_);
  for (auto& [rank, p] : peers_) {
    p.connections.clear();
    p.dialing.clear();
  }
}

// --- The door itself ----------------------------------------------------------------------------

Status Endpoint::Options::check() const {
  if (identity.ranks < 1 || identity.rank < 0 || identity.rank >= identity.ranks)
    return failed(fmt::format("rank {} of {} ranks", identity.rank, identity.ranks));
  if (handshake_max.ns <= 0) return failed(fmt::format("handshake_max is {} ns", handshake_max.ns));
  return {};
}

Endpoint::Endpoint(std::unique_ptr<Driver> driver) : driver_(std::move(driver)) {}
Endpoint::~Endpoint() = default;

Result<std::unique_ptr<Endpoint>> Endpoint::create(Options options, const Clock& clock) {
  TRY(options.check());
  auto driver = std::make_unique<Driver>(std::move(options), clock);
  TRY(driver->listen());
  return std::unique_ptr<Endpoint>(new Endpoint(std::move(driver)));
}

uint16_t Endpoint::port() const { return driver_->port(); }

Status Endpoint::connect(int32_t peer, const std::string& host, uint16_t port,
                         const link::LinkShape& shape, SimTime deadline) {
  return driver_->dial(peer, shape, host, port, deadline);
}

Status Endpoint::await_peer(int32_t peer, const link::LinkShape& shape, SimTime deadline) {
  return driver_->link(peer, shape, std::nullopt, false, deadline);
}

Status Endpoint::meet(int32_t peer, const std::string& host, uint16_t port,
                      const link::LinkShape& shape, SimTime deadline) {
  return driver_->meet(peer, shape, host, port, deadline);
}

Status Endpoint::send(int32_t peer, link::Tag tag, link::Payload payload, link::Urgency urgency) {
  return driver_->send(peer, tag, std::move(payload), urgency);
}

Result<link::Received> Endpoint::receive(int32_t peer, link::Tag tag, SimTime deadline) {
  const Awaited wanted{peer, tag};
  return std::move(TRY(driver_->receive_any({&wanted, 1}, deadline)).message);
}

Result<Endpoint::Came> Endpoint::receive_any(std::span<const Awaited> wanted, SimTime deadline) {
  return driver_->receive_any(wanted, deadline);
}

uint64_t Endpoint::queued_bytes() const { return driver_->queued_bytes(); }
Status Endpoint::flush(SimTime deadline) { return driver_->flush(deadline); }
std::vector<link::LinkStatistics> Endpoint::statistics() { return driver_->statistics(); }
void Endpoint::abort(Error error) { driver_->abort(std::move(error)); }
Status Endpoint::close(SimTime deadline) { return driver_->close(deadline); }

}  // namespace tombolo::transport
