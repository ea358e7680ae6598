#include "transport/endpoint.h"

#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <asio.hpp>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <mutex>
#include <thread>
#include <utility>

#include "base/check.h"

namespace tombolo::transport {
namespace {

using asio::ip::tcp;
using std::chrono::nanoseconds;

constexpr int kStrangersMax = 64;
constexpr auto kDialAgain = std::chrono::milliseconds(20);
constexpr int kNotSentLowWater = 128 * 1024;  // what a paced socket keeps in the kernel, bytes

Result<tcp::endpoint> loopback(const std::string& host, uint16_t port) {
  asio::error_code error;
  const auto address = asio::ip::make_address(host == "localhost" ? "127.0.0.1" : host, error);
  if (error)
    return unusable(fmt::format("\"{}\" is not an IP address", host), "give one such as 127.0.0.1");
  if (!address.is_loopback())
    return unusable(fmt::format("{} is outside this host, and plain TCP stays on this host", host),
                    "use 127.0.0.1: this version has no encryption");
  return tcp::endpoint(address, port);
}

std::string text(const tcp::endpoint& at) {
  return fmt::format("{}:{}", at.address().to_string(), at.port());
}

Error lost(int32_t rank, const std::string& reason) {
  return {ErrorCode::kLostPeer,
          fmt::format("lost rank {}: {}", rank, reason),
          {},
          fmt::format("look at what rank {} said last", rank)};
}

Error no_link(int32_t rank) {
  return {ErrorCode::kFailed, fmt::format("there is no link to rank {}", rank)};
}

// One socket, from the first byte to the last. Belongs to the io thread.
struct Connection {
  explicit Connection(asio::io_context& io)
      : socket(io), handshake_timer(io), departure_timer(io), decoder(kStrangerPayloadMax) {}

  tcp::socket socket;
  asio::steady_timer handshake_timer;
  asio::steady_timer departure_timer;
  FrameDecoder decoder;
  std::optional<Assembler> assembler;
  std::string remote;                          // "127.0.0.1:51234"
  int32_t dialed = -1;                         // the rank we called; -1: it called us
  int32_t rank = -1;                           // the peer, once it proved to be one
  bool open = true;                            // until its end was dealt with
  bool deaf = false;                           // what comes in does not matter any more
  bool writing = false;                        // asio allows one write at a time
  bool last_words = false;                     // nothing is sent after the control frames below
  bool silent = false;                         // our direction is shut down
  std::deque<std::vector<std::byte>> control;  // hello, goodbye, failure: before any data
  std::vector<std::byte> control_out;          // what is being written: either this
  EncodedHeader header_out;                    // or these two
  Outgoing data_out;
};
using ConnectionPtr = std::shared_ptr<Connection>;

// What both threads know of a rank; under the driver's mutex.
struct Peer {
  Peer(uint32_t self, uint32_t epoch) : outbox(self, epoch) {}

  LinkShape shape;
  Outbox outbox;
  Inbox inbox;
  uint64_t bytes_out = 0;            // of the frame that is being written
  ConnectionPtr connection;          // null before the handshake and after the end
  bool claimed = false;              // by connect() or await_peer()
  bool up = false;                   // shaken hands; stays true
  bool dropped = false;              // it went away with something queued for it
  std::optional<Error> unreachable;  // why connect() failed
  std::optional<Error> ended;        // why nothing more will come

  uint64_t queued_bytes() const { return outbox.queued_bytes() + bytes_out; }
  bool idle() const { return outbox.empty() && bytes_out == 0; }
  void drop_queue() {
    dropped = dropped || !idle();
    outbox.clear();
    bytes_out = 0;
  }
};

}  // namespace

class Endpoint::Driver {
 public:
  Driver(Options options, const Clock& clock)
      : options_(std::move(options)), clock_(clock), acceptor_(io_), accept_timer_(io_) {}
  ~Driver() { stop(); }

  Status listen();
  uint16_t port() const { return port_; }
  Status link(int32_t rank, const LinkShape& shape, std::optional<tcp::endpoint> dial,
              SimTime deadline);
  Status send(int32_t rank, Tag tag, Payload payload);
  Result<Received> receive(int32_t rank, Tag tag, SimTime deadline);
  uint64_t queued_bytes();
  Status flush(SimTime deadline);
  void abort(Error error);
  Status close(SimTime deadline);

 private:
  using Lock = std::unique_lock<std::mutex>;

  // Any thread.
  Peer& peer(int32_t rank);
  void wait(Lock& lock, SimTime deadline);
  Status drained(int32_t rank, const Peer& peer) const;
  void stop();

  // The io thread, in the order of a connection's life.
  void accept_next();
  void dial(const ConnectionPtr& c, const tcp::endpoint& at, SimTime deadline);
  void begin(const ConnectionPtr& c);
  void limit_handshake(const ConnectionPtr& c);
  void read(const ConnectionPtr& c);
  void decode(const ConnectionPtr& c);
  Status on_frame(const ConnectionPtr& c, const Frame& frame);
  Status on_hello(const ConnectionPtr& c, const Frame& frame);
  void pump(const ConnectionPtr& c);
  bool next_data(const ConnectionPtr& c);
  template <typename Buffers>
  void write(const ConnectionPtr& c, const Buffers& buffers);
  void say_last(const ConnectionPtr& c, std::vector<std::byte> frame);
  void refuse(const ConnectionPtr& c, const Error& error);
  void end(const ConnectionPtr& c, const Error& error);
  void end_of_stream(const ConnectionPtr& c, const std::string& reason);
  void set_low_water(const ConnectionPtr& c);

  const Options options_;
  const Clock& clock_;
  asio::io_context io_;
  asio::executor_work_guard<asio::io_context::executor_type> work_ = asio::make_work_guard(io_);
  tcp::acceptor acceptor_;
  asio::steady_timer accept_timer_;
  uint16_t port_ = 0;
  int strangers_ = 0;  // io thread
  std::thread thread_;

  std::mutex mutex_;
  std::condition_variable changed_;  // whatever stands below
  std::map<int32_t, Peer> peers_;
  std::optional<Error> aborted_;
  bool closing_ = false;
};

// --- What callers see ---------------------------------------------------------------------------

Status Endpoint::Driver::listen() {
  const tcp::endpoint at = TRY(loopback(options_.listen_address, options_.port));
  asio::error_code error;
  acceptor_.open(at.protocol(), error);
  if (!error) acceptor_.set_option(asio::socket_base::reuse_address(true), error);
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

Peer& Endpoint::Driver::peer(int32_t rank) {
  const auto self = static_cast<uint32_t>(options_.identity.rank);
  return peers_.try_emplace(rank, self, options_.identity.epoch).first->second;
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

Status Endpoint::Driver::link(int32_t rank, const LinkShape& shape,
                              std::optional<tcp::endpoint> dial, SimTime deadline) {
  TRY(shape.check());
  const Identity& self = options_.identity;
  if (rank < 0 || rank >= self.ranks || rank == self.rank)
    return failed(
        fmt::format("rank {} of {} cannot be linked to rank {}", self.rank, self.ranks, rank));
  Lock lock(mutex_);
  if (aborted_) return fail(*aborted_);
  Peer& p = peer(rank);
  if (p.claimed) return failed(fmt::format("there is a link to rank {} already", rank));
  p.claimed = true;
  p.shape = shape;
  p.outbox.set_shape(shape);
  ConnectionPtr dialing;
  if (dial) {
    dialing = std::make_shared<Connection>(io_);
    dialing->dialed = rank;
    asio::post(io_, [this, dialing, at = *dial, deadline] { this->dial(dialing, at, deadline); });
  }
  while (!p.up && !p.unreachable && !aborted_ && clock_.now() < deadline) wait(lock, deadline);
  if (p.up) {
    asio::post(io_, [this, c = p.connection] { set_low_water(c); });
    return {};
  }
  const Error error =
      aborted_        ? *aborted_
      : p.unreachable ? *p.unreachable
      : dial          ? Error{ErrorCode::kLostPeer,
                     fmt::format("rank {} did not answer at {} in time", rank, text(*dial))}
             : Error{ErrorCode::kLostPeer, fmt::format("rank {} did not call in time", rank)};
  p.claimed = false;
  p.unreachable.reset();
  if (dialing) asio::post(io_, [this, dialing, error] { end(dialing, error); });
  return fail(error);
}

Status Endpoint::Driver::send(int32_t rank, Tag tag, Payload payload) {
  if (payload.size() > options_.message_max)
    return failed(fmt::format("{} has {} bytes, the limit is {}", text(tag), payload.size(),
                              options_.message_max));
  Lock lock(mutex_);
  if (aborted_) return fail(*aborted_);
  const auto at = peers_.find(rank);
  if (at == peers_.end() || !at->second.claimed) return fail(no_link(rank));
  Peer& p = at->second;
  if (p.ended) return fail(*p.ended);
  if (!p.up || closing_) return fail(no_link(rank));
  const bool idle = p.outbox.empty();  // otherwise the io thread comes by anyway
  p.outbox.push(tag, std::move(payload), clock_.now());
  if (idle) asio::post(io_, [this, c = p.connection] { pump(c); });
  return {};
}

Result<Received> Endpoint::Driver::receive(int32_t rank, Tag tag, SimTime deadline) {
  Lock lock(mutex_);
  const auto at = peers_.find(rank);
  if (at == peers_.end() || !at->second.claimed) return fail(aborted_ ? *aborted_ : no_link(rank));
  Peer& p = at->second;
  while (true) {
    if (aborted_) return fail(*aborted_);
    const SimTime now = clock_.now();
    const auto due = p.inbox.due(tag, p.shape.delay);  // what came before a loss still counts
    if (due && *due <= now) return p.inbox.take(tag, p.shape.delay);
    if (!due && p.ended) return fail(Error(*p.ended).during("waiting for " + text(tag)));
    if (now >= deadline)
      return failed(fmt::format("rank {} did not send {} in time", rank, text(tag)));
    wait(lock, due ? std::min(*due, deadline) : deadline);
  }
}

uint64_t Endpoint::Driver::queued_bytes() {
  Lock lock(mutex_);
  uint64_t sum = 0;
  for (const auto& [rank, p] : peers_) sum += p.queued_bytes();
  return sum;
}

Status Endpoint::Driver::drained(int32_t rank, const Peer& p) const {
  if (p.dropped) return fail(Error(*p.ended).during("sending what was queued for it"));
  if (!p.idle())
    return failed(
        fmt::format("rank {} did not take the last {} bytes in time", rank, p.queued_bytes()));
  return {};
}

Status Endpoint::Driver::flush(SimTime deadline) {
  Lock lock(mutex_);
  for (const auto& [rank, p] : peers_) {
    while (!p.idle() && !aborted_ && clock_.now() < deadline) wait(lock, deadline);
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
    p.outbox.clear();
    if (p.connection)
      asio::post(io_, [this, c = p.connection, reason] {
        say_last(c, failure_frame(options_.identity, reason));
      });
  }
}

Status Endpoint::Driver::close(SimTime deadline) {
  Status status;
  {
    Lock lock(mutex_);
    closing_ = true;
    for (auto& [rank, p] : peers_)
      if (p.connection) asio::post(io_, [this, c = p.connection] { pump(c); });
    for (auto& [rank, p] : peers_) {
      while (p.connection && clock_.now() < deadline) wait(lock, deadline);
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
  for (auto& [rank, p] : peers_) p.connection.reset();
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
  if (p.up) return failed(fmt::format("duplicate rank {}: there is one already", rank));
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
  if (!peer(c->rank).shape.rate) return;
  setsockopt(c->socket.native_handle(), IPPROTO_TCP, TCP_NOTSENT_LOWAT, &kNotSentLowWater,
             sizeof kNotSentLowWater);
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
                         const LinkShape& shape, SimTime deadline) {
  return driver_->link(peer, shape, TRY(loopback(host, port)), deadline);
}

Status Endpoint::await_peer(int32_t peer, const LinkShape& shape, SimTime deadline) {
  return driver_->link(peer, shape, std::nullopt, deadline);
}

Status Endpoint::send(int32_t peer, Tag tag, Payload payload) {
  return driver_->send(peer, tag, std::move(payload));
}

Result<Received> Endpoint::receive(int32_t peer, Tag tag, SimTime deadline) {
  return driver_->receive(peer, tag, deadline);
}

uint64_t Endpoint::queued_bytes() const { return driver_->queued_bytes(); }
Status Endpoint::flush(SimTime deadline) { return driver_->flush(deadline); }
void Endpoint::abort(Error error) { driver_->abort(std::move(error)); }
Status Endpoint::close(SimTime deadline) { return driver_->close(deadline); }

}  // namespace tombolo::transport
