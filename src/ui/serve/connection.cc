#include "ui/serve/connection.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <climits>

namespace tombolo::serve {
namespace {

thread_local Connection* served_here = nullptr;

}  // namespace

Connection* Connection::of_this_thread() { return served_here; }

Connection::Connection(socket_t socket, SSL_CTX* tls, ConnectionLimits limits)
    : socket_(socket),
      limits_(limits),
      request_until_(std::chrono::steady_clock::now() + limits.request_time),
      bytes_left_(limits.request_bytes),
      tls_(tls ? SSL_new(tls) : nullptr) {
  fcntl(socket, F_SETFL, fcntl(socket, F_GETFL) | O_NONBLOCK);
  if (tls_) SSL_set_fd(tls_.get(), socket);
  tls_broken_ = tls && !tls_;
  served_here = this;
}

Connection::~Connection() { served_here = nullptr; }

bool Connection::open() {
  if (tls_broken_) return false;
  if (!tls_) return true;
  for (;;) {
    const int result = SSL_accept(tls_.get());
    if (result == 1) return true;
    if (!await_tls(result, request_until_)) {
      tls_broken_ = true;
      return false;
    }
  }
}

void Connection::close_politely() {
  if (tls_ && !tls_broken_) SSL_shutdown(tls_.get());
}

bool Connection::gone() const {
  pollfd asked{.fd = socket_, .events = POLLRDHUP, .revents = 0};
  return poll(&asked, 1, 0) > 0 && (asked.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0;
}

bool Connection::wait(short events, Instant until) const {
  for (;;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        until - std::chrono::steady_clock::now());
    if (left.count() <= 0) return false;
    pollfd asked{.fd = socket_, .events = events, .revents = 0};
    const int ready = poll(&asked, 1, static_cast<int>(std::min<int64_t>(left.count(), INT_MAX)));
    if (ready >= 0 || errno != EINTR) return ready > 0;
  }
}

bool Connection::await_tls(int result, Instant until) const {
  switch (SSL_get_error(tls_.get(), result)) {
    case SSL_ERROR_WANT_READ:
      return wait(POLLIN, until);
    case SSL_ERROR_WANT_WRITE:
      return wait(POLLOUT, until);
    default:
      ERR_clear_error();
      return false;
  }
}

bool Connection::is_readable() const {
  if (bytes_left_ == 0) return false;
  return (tls_ && SSL_pending(tls_.get()) > 0) || wait(POLLIN, request_until_);
}

bool Connection::is_writable() const {
  return wait(POLLOUT, std::chrono::steady_clock::now() + limits_.write_time);
}

ssize_t Connection::read(char* at, size_t size) {
  const size_t most = std::min({size, bytes_left_, size_t{INT_MAX}});
  if (most == 0 || tls_broken_) return -1;
  ssize_t got = -1;
  while (tls_ && (got = SSL_read(tls_.get(), at, static_cast<int>(most))) <= 0) {
    if (await_tls(static_cast<int>(got), request_until_)) continue;
    tls_broken_ = true;
    return -1;
  }
  if (!tls_) {
    if (!is_readable()) return -1;
    got = recv(socket_, at, most, 0);
  }
  if (got > 0) bytes_left_ -= static_cast<size_t>(got);
  return got;
}

ssize_t Connection::write(const char* at, size_t size) {
  if (tls_broken_) return -1;
  const auto until = std::chrono::steady_clock::now() + limits_.write_time;
  if (!tls_) {
    if (!wait(POLLOUT, until)) return -1;
    return send(socket_, at, size, MSG_NOSIGNAL | MSG_DONTWAIT);
  }
  for (;;) {
    const int sent = SSL_write(tls_.get(), at, static_cast<int>(std::min(size, size_t{INT_MAX})));
    if (sent > 0) return sent;
    if (await_tls(sent, until)) continue;
    tls_broken_ = true;
    return -1;
  }
}

}  // namespace tombolo::serve
