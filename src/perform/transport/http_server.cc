#include "perform/transport/http_server.h"

#include <netdb.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <thread>

#include "base/check.h"
#include "base/parallel.h"
#include "perform/transport/http_connection.h"

namespace tombolo::transport {
namespace {

using State = HttpConnection::State;
using Clients = std::vector<std::unique_ptr<HttpConnection>>;

constexpr std::chrono::milliseconds kOutOfFiles{100};  // until it looks again for a free descriptor
constexpr std::chrono::milliseconds kGlance{1'000};
constexpr std::chrono::milliseconds kAtOnce{0};  // what the reading thread sends fits into a socket

std::string host_of(const sockaddr_storage& address, socklen_t size) {
  char host[NI_MAXHOST] = "";
  getnameinfo(reinterpret_cast<const sockaddr*>(&address), size, host, sizeof host, nullptr, 0,
              NI_NUMERICHOST);
  return host;
}

}  // namespace

std::string HttpRequest::header(std::string_view name) const {
  for (const auto& [key, value] : headers)
    if (key == name) return value;
  return "";
}

class HttpServer::Inside {
 public:
  Inside(HttpServerOptions options, HttpHandlers handlers)
      : options_(std::move(options)), handlers_(std::move(handlers)) {}
  ~Inside();

  Status open();
  const Address& address() const { return options_.listen; }

 private:
  struct FreeContext {
    void operator()(SSL_CTX* context) const { SSL_CTX_free(context); }
  };
  using TlsContext = std::unique_ptr<SSL_CTX, FreeContext>;

  class Descriptor {
   public:
    explicit Descriptor(int fd = -1) : fd_(fd) {}
    ~Descriptor() { reset(); }
    Descriptor(const Descriptor&) = delete;
    Descriptor& operator=(const Descriptor&) = delete;
    int get() const { return fd_; }
    void reset(int fd = -1) {
      if (fd_ >= 0) ::close(fd_);
      fd_ = fd;
    }

   private:
    int fd_;
  };

  Result<TlsContext> tls_context() const;
  Status listen();
  void read_all();    // the reading thread
  void answer_all();  // a serving one
  int poll_once(std::vector<pollfd>& asked);
  void accept_some();
  void make_room();
  void read_from(std::unique_ptr<HttpConnection>& client);
  void hand_over(std::unique_ptr<HttpConnection> client);
  void refuse(HttpConnection& client, int status);
  void answer(HttpConnection& client);
  void note(const HttpConnection& client, int status) const {
    if (handlers_.answered && client.has_head()) handlers_.answered(client.request(), status);
  }
  void take_back(std::unique_ptr<HttpConnection> client);
  void wake() const { eventfd_write(wake_.get(), 1); }

  HttpServerOptions options_;
  const HttpHandlers handlers_;
  TlsContext tls_;
  Descriptor listener_, wake_;
  Clients clients_;  // the reading thread's
  HttpConnection::Instant accepts_from_{};

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::unique_ptr<HttpConnection>> whole_;  // for the serving threads
  Clients answered_;                                   // for the reading one
  size_t answering_ = 0;
  std::atomic<bool> stopping_{false};
  std::thread reader_;
  std::vector<std::thread> servers_;
};

HttpServer::Inside::~Inside() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
  }
  if (wake_.get() >= 0) wake();
  if (reader_.joinable()) reader_.join();
  for (std::thread& server : servers_) server.join();
}

Result<HttpServer::Inside::TlsContext> HttpServer::Inside::tls_context() const {
  if (options_.certificate.empty()) return TlsContext();
  TlsContext context(SSL_CTX_new(TLS_server_method()));
  CHECK(context, "OpenSSL gives no context");
  SSL_CTX_set_min_proto_version(context.get(), TLS1_2_VERSION);
  SSL_CTX_set_options(context.get(), SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
  SSL_CTX_set_mode(context.get(),
                   SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  if (SSL_CTX_use_certificate_chain_file(context.get(), options_.certificate.c_str()) != 1) {
    ERR_clear_error();
    return unusable(fmt::format("{}: no certificate in PEM that can be read", options_.certificate),
                    "the file with the certificate first, then those that vouch for it");
  }
  const bool has_key = SSL_CTX_use_PrivateKey_file(context.get(), options_.private_key.c_str(),
                                                   SSL_FILETYPE_PEM) == 1;
  if (!has_key || SSL_CTX_check_private_key(context.get()) != 1) {
    ERR_clear_error();
    return unusable(fmt::format("{}: no private key in PEM that belongs to {}",
                                options_.private_key, options_.certificate),
                    "both files of one and the same certificate");
  }
  return context;
}

Status HttpServer::Inside::listen() {
  Address& here = options_.listen;
  const char* const hint = here.port == 0 ? "an address of this host"
                                          : "an address of this host with a free port; port 0: any";
  const auto refused = [&] {
    return unusable(fmt::format("cannot listen on {}", here.text()), hint);
  };
  addrinfo wanted{}, *found = nullptr;
  wanted.ai_socktype = SOCK_STREAM;
  wanted.ai_flags = AI_PASSIVE;
  if (getaddrinfo(here.host.c_str(), fmt::format("{}", here.port).c_str(), &wanted, &found) != 0)
    return refused();
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> all(found, &freeaddrinfo);
  for (const addrinfo* at = found; at; at = at->ai_next) {
    listener_.reset(socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    const int yes = 1;
    setsockopt(listener_.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (bind(listener_.get(), at->ai_addr, at->ai_addrlen) != 0 ||
        ::listen(listener_.get(), SOMAXCONN) != 0)
      continue;
    sockaddr_storage bound{};
    socklen_t size = sizeof bound;
    char port[NI_MAXSERV] = "0";
    getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&bound), &size);
    getnameinfo(reinterpret_cast<const sockaddr*>(&bound), size, nullptr, 0, port, sizeof port,
                NI_NUMERICSERV);
    here.port = static_cast<uint16_t>(std::stoi(port));
    return {};
  }
  return refused();
}

Status HttpServer::Inside::open() {
  CHECK(handlers_.answer, "a server that answers nothing");
  CHECK(options_.limits.threads >= 1 && options_.limits.connections >= 1,
        "{} threads, {} connections", options_.limits.threads, options_.limits.connections);
  tls_ = TRY(tls_context());
  TRY(listen());
  wake_.reset(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  CHECK(wake_.get() >= 0, "no eventfd: {}", errno);
  reader_ = start_without_signals([this] { read_all(); });
  for (size_t i = 0; i < options_.limits.threads; ++i)
    servers_.push_back(start_without_signals([this] { answer_all(); }));
  return {};
}

// --- the reading thread --------------------------------------------------------------------------

void HttpServer::Inside::read_all() {
  std::vector<pollfd> asked;
  while (!stopping_) {
    const size_t before = clients_.size();
    if (poll_once(asked) > 0) {
      for (size_t i = 0; i < before; ++i)
        if (asked[i + 2].revents != 0) read_from(clients_[i]);
      if (asked[1].revents != 0) accept_some();
    }
    const auto now = std::chrono::steady_clock::now();
    for (std::unique_ptr<HttpConnection>& client : clients_) {
      if (!client || now < client->deadline()) continue;
      // After an answer the client has had its time to read; in a TLS handshake no reply can be
      // sent.
      const State state = client->state();
      if (state == State::kHead || state == State::kBody)
        refuse(*client, 408);
      else
        client->close();
    }
    std::erase_if(clients_,
                  [](const auto& client) { return !client || client->state() == State::kClosed; });
    eventfd_t count = 0;
    eventfd_read(wake_.get(), &count);
    std::lock_guard lock(mutex_);
    std::move(answered_.begin(), answered_.end(), std::back_inserter(clients_));
    answered_.clear();
  }
}

// Polls, in this order: the wake-ups by other threads, the listener, and the clients.
int HttpServer::Inside::poll_once(std::vector<pollfd>& asked) {
  const auto now = std::chrono::steady_clock::now();
  auto until = now + kGlance;
  const bool accepts = now >= accepts_from_;
  if (!accepts) until = std::min(until, accepts_from_);
  asked.clear();
  asked.push_back({.fd = wake_.get(), .events = POLLIN, .revents = 0});
  asked.push_back({.fd = accepts ? listener_.get() : -1, .events = POLLIN, .revents = 0});
  for (const std::unique_ptr<HttpConnection>& client : clients_) {
    asked.push_back({.fd = client->socket(), .events = client->events(), .revents = 0});
    until = std::min(until, client->deadline());
  }
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - now);
  return poll(asked.data(), asked.size(), std::max(0, static_cast<int>(left.count())));
}

void HttpServer::Inside::accept_some() {
  for (;;) {
    sockaddr_storage from{};
    socklen_t size = sizeof from;
    const int socket = accept4(listener_.get(), reinterpret_cast<sockaddr*>(&from), &size,
                               SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (socket < 0) {
      const bool full = errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM;
      if (full) accepts_from_ = std::chrono::steady_clock::now() + kOutOfFiles;
      if (full) make_room();
      if (errno == EINTR || errno == ECONNABORTED) continue;
      return;
    }
    if (clients_.size() >= options_.limits.connections) make_room();
    clients_.push_back(
        std::make_unique<HttpConnection>(socket, tls_.get(), host_of(from, size), options_.limits));
    read_from(clients_.back());
  }
}

// Closes the oldest connection of the client address that holds most of them: it has had the most
// time to send its request.
void HttpServer::Inside::make_room() {
  std::map<std::string, size_t> held;
  for (const auto& client : clients_)
    if (client) ++held[client->client()];
  const auto worse = [&](const auto& a, const auto& b) {
    if (!a || !b) return static_cast<bool>(b);
    const size_t of_a = held[a->client()], of_b = held[b->client()];
    return of_a != of_b ? of_a < of_b : a->since() > b->since();
  };
  const auto worst = std::max_element(clients_.begin(), clients_.end(), worse);
  if (worst != clients_.end()) worst->reset();
  std::erase_if(clients_, [](const auto& client) { return !client; });
}

void HttpServer::Inside::read_from(std::unique_ptr<HttpConnection>& client) {
  if (!client) return;
  client->read_on();
  if (client->state() == State::kHeadRead) {
    const auto reply =
        handlers_.before_body ? handlers_.before_body(client->request()) : std::nullopt;
    if (reply) {
      client->answer(*reply, kAtOnce);
      note(*client, reply->status);
    } else {
      client->read_body();
      client->read_on();  // TLS may hold bytes that the socket does not show
    }
  }
  if (client->state() == State::kUnclear) refuse(*client, client->refusal());
  if (client->state() == State::kWhole) hand_over(std::move(client));
}

void HttpServer::Inside::hand_over(std::unique_ptr<HttpConnection> client) {
  {
    std::lock_guard lock(mutex_);
    if (answering_ + whole_.size() < options_.limits.threads + options_.limits.waiting) {
      whole_.push_back(std::move(client));
      changed_.notify_one();
      return;
    }
  }
  refuse(*client, 429);
  take_back(std::move(client));
}

void HttpServer::Inside::refuse(HttpConnection& client, int status) {
  client.answer(handlers_.refusal ? handlers_.refusal(status) : HttpReply{.status = status},
                kAtOnce);
  note(client, status);
}

void HttpServer::Inside::take_back(std::unique_ptr<HttpConnection> client) {
  {
    std::lock_guard lock(mutex_);
    answered_.push_back(std::move(client));
  }
  wake();
}

// --- serving threads -----------------------------------------------------------------------------

void HttpServer::Inside::answer_all() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return stopping_ || !whole_.empty(); });
    if (stopping_) return;
    std::unique_ptr<HttpConnection> client = std::move(whole_.front());
    whole_.pop_front();
    ++answering_;
    lock.unlock();
    answer(*client);
    take_back(std::move(client));
    lock.lock();
    --answering_;
  }
}

void HttpServer::Inside::answer(HttpConnection& client) {
  HttpReply reply;
  try {
    reply = handlers_.answer(client.request(), client);
  } catch (const std::exception&) {  // of a library, or no memory: others still get their answers
    return refuse(client, 500);
  }
  client.answer(reply, options_.limits.write_time);
  note(client, reply.status);
}

// --- outside -------------------------------------------------------------------------------------

HttpServer::HttpServer(std::unique_ptr<Inside> inside) : inside_(std::move(inside)) {}
HttpServer::~HttpServer() = default;
const Address& HttpServer::address() const { return inside_->address(); }

Result<std::unique_ptr<HttpServer>> HttpServer::open(HttpServerOptions options,
                                                     HttpHandlers handlers) {
  auto inside = std::make_unique<Inside>(std::move(options), std::move(handlers));
  TRY(inside->open());
  return std::unique_ptr<HttpServer>(new HttpServer(std::move(inside)));
}

}  // namespace tombolo::transport
