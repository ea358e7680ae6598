#include "perform/transport/splice_listener.h"

#include <asio.hpp>
#include <chrono>
#include <map>
#include <set>
#include <thread>

#include "base/check.h"
#include "base/clock.h"
#include "base/parallel.h"
#include "perform/link/splice.h"
#include "perform/link/unauthenticated.h"
#include "perform/transport/address.h"
#include "perform/transport/refusal_lines.h"
#include "perform/transport/tcp_state.h"

namespace tombolo::transport {
namespace {

using asio::ip::tcp;

constexpr size_t kCallsMax = 4096;
constexpr size_t kBuffer = 64 * 1024;
constexpr uint32_t kUnsentMark = 128 * 1024;
constexpr SimDuration kUnacknowledgedMax{60'000'000'000};  // then a call is over

}  // namespace

class SpliceListener::Driver {
 public:
  explicit Driver(Options options)
      : options_(std::move(options)), acceptor_(io_), accept_timer_(io_) {}
  ~Driver() {
    io_.stop();
    if (thread_.joinable()) thread_.join();
    for (const auto& [id, call] : calls_) call->partner.reset();  // they hold each other
  }

  Status listen();
  uint16_t port() const { return port_; }

 private:
  // One socket. Two that are joined hold each other until both directions are over.
  struct Call {
    explicit Call(asio::io_context& io) : socket(io), timer(io) {}
    tcp::socket socket;
    asio::steady_timer timer;
    uint64_t id = 0;
    std::string remote;
    link::Preface preface{};
    bool open = true;
    bool unauthenticated = true;
    std::shared_ptr<Call> partner;
    std::vector<std::byte> buffer;  // what came from here and goes to the partner
    bool said_all = false;          // its direction is over
  };
  using CallPtr = std::shared_ptr<Call>;

  void accept_next();
  void welcome(const CallPtr& call);
  void on_preface(const CallPtr& call);
  void wait(const CallPtr& call);
  void join(const CallPtr& a, const CallPtr& b);
  void copy(const CallPtr& from);
  void refuse(const CallPtr& call, const std::string& reason);
  void end(const CallPtr& call);

  const Options options_;
  asio::io_context io_;
  tcp::acceptor acceptor_;
  asio::steady_timer accept_timer_;
  uint16_t port_ = 0;
  uint64_t next_id_ = 0;
  link::Unauthenticated unauthenticated_;
  const SystemClock clock_;
  RefusalLines refusals_;
  std::map<uint64_t, CallPtr> calls_;
  link::Pairing pairing_;
  std::thread thread_;
};

Status SpliceListener::Driver::listen() {
  if (!options_.anywhere) TRY(check_stays_here(options_.listen_address, options_.network));
  asio::error_code error;
  const auto address = asio::ip::make_address(options_.listen_address, error);
  const tcp::endpoint at(address, options_.port);
  if (!error) acceptor_.open(at.protocol(), error);
  if (!error) acceptor_.set_option(asio::socket_base::reuse_address(true), error);
  if (!error) acceptor_.bind(at, error);
  if (!error) acceptor_.listen(asio::socket_base::max_listen_connections, error);
  if (error)
    return unusable(fmt::format("cannot listen on {}:{} for ranks that can only call out: {}",
                                options_.listen_address, options_.port, error.message()),
                    "another rendezvous port: this is the one after it");
  port_ = acceptor_.local_endpoint(error).port();
  accept_next();
  thread_ = start_without_signals([this] { io_.run(); });
  return {};
}

void SpliceListener::Driver::accept_next() {
  const auto call = std::make_shared<Call>(io_);
  acceptor_.async_accept(call->socket, [this, call](asio::error_code error) {
    if (error) {  // out of file descriptors, mostly: others may end meanwhile
      accept_timer_.expires_after(std::chrono::milliseconds(100));
      accept_timer_.async_wait([this](asio::error_code) { accept_next(); });
      return;
    }
    welcome(call);
    const SimTime now = clock_.now();
    const SimTime room = unauthenticated_.room_at(now);
    if (room <= now) return accept_next();
    accept_timer_.expires_after(std::chrono::nanoseconds((room - now).ns));
    accept_timer_.async_wait([this](asio::error_code) { accept_next(); });
  });
}

void SpliceListener::Driver::welcome(const CallPtr& call) {
  asio::error_code ignored;
  const auto remote = call->socket.remote_endpoint(ignored);
  call->remote = fmt::format("{}:{}", remote.address().to_string(), remote.port());
  call->socket.set_option(tcp::no_delay(true), ignored);
  call->socket.set_option(asio::socket_base::keep_alive(true), ignored);
  set_unsent_mark(call->socket.native_handle(), kUnsentMark);
  call->id = ++next_id_;
  calls_[call->id] = call;
  set_user_timeout(call->socket.native_handle(), kUnacknowledgedMax);
  const auto goes = unauthenticated_.add(call->id, remote.address().to_string(), clock_.now());
  if (goes) refuse(CallPtr(calls_.at(*goes)), "too many calls at once");
  if (calls_.size() > kCallsMax) return refuse(call, "too many calls at once");
  call->timer.expires_after(std::chrono::nanoseconds(options_.handshake_max.ns));
  call->timer.async_wait([this, call](asio::error_code error) {
    if (error || !call->open) return;
    refuse(call, fmt::format("it did not say whom it wants within {}",
                             brief(seconds(options_.handshake_max))));
  });
  asio::async_read(call->socket, asio::buffer(call->preface),
                   [this, call](asio::error_code error, size_t) {
                     if (!call->open) return;
                     if (error) return refuse(call, "it hung up before it said whom it wants");
                     on_preface(call);
                   });
}

void SpliceListener::Driver::on_preface(const CallPtr& call) {
  const auto wanted = link::decode_preface(options_.token, options_.ranks, call->preface);
  if (!wanted) return refuse(call, wanted.error().message);
  call->timer.cancel();
  call->unauthenticated = false;
  unauthenticated_.remove(call->id);
  const link::Pairing::Answer answer = pairing_.add(call->id, *wanted);
  if (answer.replaced) end(CallPtr(calls_.at(*answer.replaced)));
  if (!answer.partner) return wait(call);
  join(CallPtr(calls_.at(*answer.partner)), call);
}

// Says nothing until it is joined. What comes before that is its end, or nonsense.
void SpliceListener::Driver::wait(const CallPtr& call) {
  call->socket.async_wait(tcp::socket::wait_read, [this, call](asio::error_code error) {
    if (error || !call->open || call->partner) return;
    end(call);
  });
}

void SpliceListener::Driver::join(const CallPtr& a, const CallPtr& b) {
  a->partner = b;
  b->partner = a;
  asio::error_code ignored;
  a->socket.cancel(ignored);  // its wait
  for (const CallPtr& call : {a, b}) {
    call->buffer.resize(kBuffer);
    asio::async_write(call->socket, asio::buffer(&link::kJoined, 1),
                      [this, call](asio::error_code error, size_t) {
                        if (!call->open) return;
                        if (error) return end(call);
                        copy(call->partner);  // what the other says goes here, after the byte
                      });
  }
}

// From here to the partner, and again: never more than one buffer is on its way.
void SpliceListener::Driver::copy(const CallPtr& from) {
  from->socket.async_read_some(
      asio::buffer(from->buffer), [this, from](asio::error_code error, size_t bytes) {
        if (!from->open) return;
        asio::error_code ignored;
        if (error == asio::error::eof) {
          from->said_all = true;
          if (from->partner->said_all) return end(from);
          from->partner->socket.shutdown(tcp::socket::shutdown_send, ignored);
          return;
        }
        if (error) return end(from);
        asio::async_write(from->partner->socket, asio::buffer(from->buffer.data(), bytes),
                          [this, from](asio::error_code failed, size_t) {
                            if (!from->open) return;
                            if (failed) return end(from);
                            copy(from);
                          });
      });
}

void SpliceListener::Driver::refuse(const CallPtr& call, const std::string& reason) {
  const auto line =
      refusals_.add("refused to splice a connection", call->remote, reason, clock_.now());
  if (options_.log && line) options_.log(*line);
  end(call);
}

// With its partner, if it has one.
void SpliceListener::Driver::end(const CallPtr& call) {
  if (!std::exchange(call->open, false)) return;
  asio::error_code ignored;
  call->timer.cancel();
  call->socket.close(ignored);
  if (std::exchange(call->unauthenticated, false)) unauthenticated_.remove(call->id);
  pairing_.remove(call->id);
  calls_.erase(call->id);
  if (const CallPtr partner = std::exchange(call->partner, nullptr)) end(partner);
}

Result<std::unique_ptr<SpliceListener>> SpliceListener::open(Options options) {
  CHECK(options.ranks >= 2 && options.handshake_max.ns > 0,
        "a splice for {} ranks, who have {} ns to say whom they want", options.ranks,
        options.handshake_max.ns);
  auto driver = std::make_unique<Driver>(std::move(options));
  TRY(driver->listen());
  return std::unique_ptr<SpliceListener>(new SpliceListener(std::move(driver)));
}

SpliceListener::SpliceListener(std::unique_ptr<Driver> driver) : driver_(std::move(driver)) {}
SpliceListener::~SpliceListener() = default;
uint16_t SpliceListener::port() const { return driver_->port(); }

}  // namespace tombolo::transport
