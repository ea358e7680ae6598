#include "perform/transport/http_connection.h"

#include <fcntl.h>
#include <openssl/err.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <boost/beast/http/status.hpp>
#include <cerrno>
#include <charconv>
#include <climits>
#include <limits>

#include "base/check.h"

namespace tombolo::transport {
namespace {

namespace beast = boost::beast::http;

constexpr size_t kPieceMax = 16 * 1024;  // read at a time, so that no client keeps others waiting
constexpr size_t kFramesOfChunks = 64 * 1024;  // next to the chunks of a body
constexpr std::chrono::milliseconds kFarewell{2'000};
constexpr size_t kDiscardMax = size_t{4} << 20;

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return out;
}

// "%41" is "A" (RFC 3986, 2.1); what is no such triple stays.
std::string percent_decoded(std::string_view text) {
  std::string out;
  for (size_t at = 0; at < text.size(); ++at) {
    unsigned value = 0;
    const char* const digits = text.data() + at + 1;
    const bool is_triple = text[at] == '%' && at + 2 < text.size() &&
                           std::from_chars(digits, digits + 2, value, 16).ptr == digits + 2;
    out += is_triple ? static_cast<char>(value) : text[at];
    if (is_triple) at += 2;
  }
  return out;
}

// The path of "/metrics?x=1" and of "http://host:80/metrics" (RFC 9112, 3.2.2).
std::string path_of(std::string_view target) {
  const size_t scheme = target.find("://");
  if (!target.starts_with('/') && scheme != std::string_view::npos) {
    const size_t path = target.find('/', scheme + 3);
    target = path == std::string_view::npos ? "/" : target.substr(path);
  }
  return percent_decoded(target.substr(0, target.find('?')));
}

std::string text_of(const auto& view) { return std::string(view.data(), view.size()); }

int status_of(const boost::system::error_code& error) {
  if (error == beast::error::header_limit || error == beast::error::buffer_overflow) return 431;
  if (error == beast::error::body_limit) return 413;
  if (error == beast::error::bad_version) return 505;
  return 400;
}

}  // namespace

HttpConnection::HttpConnection(int socket, SSL_CTX* tls, std::string client,
                               const HttpLimits& limits)
    : socket_(socket),
      client_(std::move(client)),
      limits_(limits),
      deadline_(since_ + limits.request_time),
      tls_(tls ? SSL_new(tls) : nullptr) {
  fcntl(socket, F_SETFL, fcntl(socket, F_GETFL) | O_NONBLOCK);
  events_ = POLLIN;
  parser_.header_limit(static_cast<uint32_t>(limits.head_bytes));
  parser_.body_limit(std::numeric_limits<uint64_t>::max());  // take_head() looks itself
  parser_.eager(false);
  if (tls_) SSL_set_fd(tls_.get(), socket);
  if (!tls) state_ = State::kHead;
  if (tls && !tls_) state_ = State::kClosed;
}

HttpConnection::~HttpConnection() { ::close(socket_); }

bool HttpConnection::shake_hands() {
  const int result = SSL_accept(tls_.get());
  if (result == 1) return true;
  switch (SSL_get_error(tls_.get(), result)) {
    case SSL_ERROR_WANT_READ:
      events_ = POLLIN;
      break;
    case SSL_ERROR_WANT_WRITE:
      events_ = POLLOUT;
      break;
    default:  // plain HTTP, most likely
      ERR_clear_error();
      hang_up();
  }
  return false;
}

std::optional<size_t> HttpConnection::receive(char* at, size_t size) {
  if (!tls_) {
    ssize_t got = -1;
    do {
      got = recv(socket_, at, size, 0);
    } while (got < 0 && errno == EINTR);
    if (got > 0) return static_cast<size_t>(got);
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return 0;
    return std::nullopt;
  }
  const int got = SSL_read(tls_.get(), at, static_cast<int>(size));
  if (got > 0) return static_cast<size_t>(got);
  const int error = SSL_get_error(tls_.get(), got);
  events_ = error == SSL_ERROR_WANT_WRITE ? POLLOUT : POLLIN;
  if (error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE) return 0;
  ERR_clear_error();
  return std::nullopt;
}

void HttpConnection::read_on() {
  if (state_ == State::kHandshake) {
    if (!shake_hands()) return;
    state_ = State::kHead;
    events_ = POLLIN;
  }
  if (state_ == State::kAnswered) return discard();
  if (state_ != State::kHead && state_ != State::kBody) return;
  // TLS may hold more than the socket shows: until there is nothing, or something to decide.
  char piece[kPieceMax];
  do {
    const std::optional<size_t> got = receive(piece, sizeof piece);
    if (!got) return close();
    if (*got == 0) return;
    bytes_ += *got;
    unread_.append(piece, *got);
    parse();
  } while (tls_ && SSL_pending(tls_.get()) > 0 &&
           (state_ == State::kHead || state_ == State::kBody));
}

// A bound on the bytes of a head also holds where the parser waits for the end of a line.
void HttpConnection::parse() {
  if (state_ == State::kHead && !parser_.got_some()) {
    // Empty lines before a request (RFC 9112, 2.2).
    unread_.erase(0, std::min(unread_.find_first_not_of("\r\n"), unread_.size()));
  }
  while (!unread_.empty() && (state_ == State::kHead || state_ == State::kBody)) {
    boost::system::error_code error;
    const size_t used = parser_.put(boost::asio::buffer(unread_), error);
    unread_.erase(0, used);
    if (error && error != beast::error::need_more) return refuse(status_of(error));
    if (state_ == State::kHead && parser_.is_header_done()) return take_head();
    if (parser_.is_done()) {
      request_.body = std::move(parser_.get().body());
      state_ = State::kWhole;
      return;
    }
    if (error == beast::error::need_more) break;
  }
  if (state_ == State::kHead && bytes_ > limits_.head_bytes) refuse(431);
  if (state_ == State::kBody && bytes_ > limits_.head_bytes + limits_.body_bytes + kFramesOfChunks)
    refuse(413);
}

void HttpConnection::take_head() {
  const auto& head = parser_.get();
  request_.method = text_of(head.method_string());
  request_.path = path_of(text_of(head.target()));
  for (const auto& field : head) {
    request_.headers.emplace_back(lower(text_of(field.name_string())), text_of(field.value()));
  }
  has_head_ = true;
  // A server that divides a connection's bytes into requests differently from the sender lets
  // requests be smuggled (RFC 9112, 6.3); and a request has one host (3.2).
  const size_t hosts = head.count(beast::field::host);
  const size_t lengths = head.count(beast::field::content_length);
  const bool has_coding = head.count(beast::field::transfer_encoding) > 0;
  if (head.version() != 10 && head.version() != 11) return refuse(505);
  if ((head.version() == 11 && hosts != 1) || lengths > 1 || (lengths > 0 && has_coding))
    return refuse(400);
  if (has_coding && !head.chunked()) return refuse(501);
  if (parser_.content_length().value_or(0) > limits_.body_bytes) return refuse(413);
  state_ = State::kHeadRead;
}

void HttpConnection::read_body() {
  CHECK(state_ == State::kHeadRead, "a body before its head");
  if (parser_.is_done()) {
    state_ = State::kWhole;
    return;
  }
  state_ = State::kBody;
  parser_.body_limit(limits_.body_bytes);
  parser_.eager(true);
  const std::string expects = lower(request_.header("expect"));
  if (!expects.empty() && expects != "100-continue") return refuse(417);
  if (!expects.empty() && unread_.empty() && !send_all("HTTP/1.1 100 Continue\r\n\r\n"))
    return close();
  parse();
}

void HttpConnection::refuse(int status) {
  refusal_ = status;
  state_ = State::kUnclear;
}

void HttpConnection::answer(const HttpReply& reply, std::chrono::milliseconds patience) {
  patience_ = patience;
  const bool to_head = request_.method == "HEAD";
  std::string out =
      fmt::format("HTTP/1.1 {} {}\r\nConnection: close\r\n", reply.status,
                  text_of(beast::obsolete_reason(static_cast<beast::status>(reply.status))));
  for (const auto& [name, value] : reply.headers) out += name + ": " + value + "\r\n";
  if (!reply.content_type.empty()) out += "Content-Type: " + reply.content_type + "\r\n";
  // In HTTP/1.0 the end of the connection is the end of a body of unknown length.
  chunked_ = reply.stream && parser_.get().version() >= 11;
  if (chunked_) out += "Transfer-Encoding: chunked\r\n";
  const bool has_body = reply.status >= 200 && reply.status != 204 && reply.status != 304;
  if (!reply.stream && has_body) out += fmt::format("Content-Length: {}\r\n", reply.body.size());
  out += "\r\n";
  if (!reply.stream && has_body && !to_head) out += reply.body;
  bool sent = send_all(out);
  if (sent && reply.stream && !to_head) {
    reply.stream(*this);
    sent = state_ != State::kClosed && (!chunked_ || send_all("0\r\n\r\n"));
  }
  if (!sent) return close();
  if (tls_) SSL_shutdown(tls_.get());
  hang_up();
}

void HttpConnection::hang_up() {
  shutdown(socket_, SHUT_WR);
  state_ = State::kAnswered;
  events_ = POLLIN;
  bytes_ = 0;
  deadline_ = std::chrono::steady_clock::now() + kFarewell;
}

// The rest of a request that was answered before it had come.
void HttpConnection::discard() {
  char piece[kPieceMax];
  const ssize_t got = recv(socket_, piece, sizeof piece, 0);
  if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) return;
  if (got <= 0 || (bytes_ += static_cast<size_t>(got)) > kDiscardMax) close();
}

bool HttpConnection::gone() const {
  if (state_ == State::kClosed) return true;
  pollfd asked{.fd = socket_, .events = POLLRDHUP, .revents = 0};
  return poll(&asked, 1, 0) > 0 && (asked.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0;
}

bool HttpConnection::write(std::string_view piece) {
  if (state_ == State::kClosed) return false;
  if (piece.empty()) return true;  // an empty chunk would be the end
  const bool sent =
      chunked_ ? send_all(fmt::format("{:x}\r\n{}\r\n", piece.size(), piece)) : send_all(piece);
  if (!sent) close();
  return sent;
}

bool HttpConnection::wait(short events, Instant until) const {
  for (;;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        until - std::chrono::steady_clock::now());
    if (left.count() <= 0) return false;
    pollfd asked{.fd = socket_, .events = events, .revents = 0};
    const int ready = poll(&asked, 1, static_cast<int>(std::min<int64_t>(left.count(), INT_MAX)));
    if (ready >= 0 || errno != EINTR) return ready > 0;
  }
}

bool HttpConnection::send_all(std::string_view bytes) {
  while (!bytes.empty()) {
    const Instant until = std::chrono::steady_clock::now() + patience_;
    if (!tls_) {
      const ssize_t sent = send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      if (sent > 0) bytes.remove_prefix(static_cast<size_t>(sent));
      if (sent > 0 || (sent < 0 && errno == EINTR)) continue;
      if ((errno != EAGAIN && errno != EWOULDBLOCK) || !wait(POLLOUT, until)) return false;
      continue;
    }
    const int most = static_cast<int>(std::min(bytes.size(), size_t{INT_MAX}));
    const int sent = SSL_write(tls_.get(), bytes.data(), most);
    if (sent > 0) {
      bytes.remove_prefix(static_cast<size_t>(sent));
      continue;
    }
    const int error = SSL_get_error(tls_.get(), sent);
    const bool reads = error == SSL_ERROR_WANT_READ;
    if (!reads && error != SSL_ERROR_WANT_WRITE) ERR_clear_error();
    if ((!reads && error != SSL_ERROR_WANT_WRITE) || !wait(reads ? POLLIN : POLLOUT, until))
      return false;
  }
  return true;
}

}  // namespace tombolo::transport
