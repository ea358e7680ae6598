// One request of one client, over TCP or TLS. For http_server.cc alone.
//
// The reading side never waits: read_on() takes what is there, and is called again when the socket is
// ready. The writing side waits, on a thread that may. No two threads use a connection at a time.
#pragma once

#include <openssl/ssl.h>

#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "perform/transport/http_server.h"

namespace tombolo::transport {

class HttpConnection final : public HttpClient {
 public:
  using Instant = std::chrono::steady_clock::time_point;

  // Only moves forwards. The reading thread changes it, except that the thread that answers a
  // kWhole request takes it to kAnswered or kClosed.
  enum class State {
    kHandshake,  // of TLS
    kHead,       // until the empty line behind the headers
    kHeadRead,   // to be examined by the caller: read_body() or an answer follows
    kBody,
    kWhole,     // nothing is read: it is answered
    kUnclear,   // refusal() says what is wrong with it
    kAnswered,  // what still comes is thrown away, until the client has read the answer and closes
    kClosed,    // the client has gone, or cannot be talked to
  };

  // Owns the socket. `tls`: null for plain TCP. `client`: its address, as text.
  HttpConnection(int socket, SSL_CTX* tls, std::string client, const HttpLimits& limits);
  ~HttpConnection() override;

  State state() const { return state_; }
  int socket() const { return socket_; }
  short events() const { return events_; }  // for poll(), what it waits for
  Instant deadline() const { return deadline_; }
  Instant since() const { return since_; }
  const std::string& client() const { return client_; }
  int refusal() const { return refusal_; }
  const HttpRequest& request() const { return request_; }
  bool has_head() const { return has_head_; }

  void read_on();           // while it is being read, or answered
  void read_body();         // from kHeadRead
  void refuse(int status);  // while it is being read
  // From kHeadRead, kWhole, kUnclear. The client may take `patience` for each part of it.
  void answer(const HttpReply& reply, std::chrono::milliseconds patience);
  void close() { state_ = State::kClosed; }

  bool gone() const override;
  bool write(std::string_view piece) override;

 private:
  struct Free {
    void operator()(SSL* tls) const { SSL_free(tls); }
  };
  bool shake_hands();
  // Bytes; 0: none now; nothing: the client has gone.
  std::optional<size_t> receive(char* at, size_t size);
  void parse();
  void take_head();
  void hang_up();  // nothing more is said
  void discard();
  bool send_all(std::string_view bytes);
  bool wait(short events, Instant until) const;

  const int socket_;
  const std::string client_;
  const HttpLimits& limits_;
  const Instant since_ = std::chrono::steady_clock::now();
  Instant deadline_;
  std::unique_ptr<SSL, Free> tls_;
  State state_ = State::kHandshake;
  short events_ = 0;
  int refusal_ = 0;
  std::string unread_;  // by the parser
  size_t bytes_ = 0;    // received
  boost::beast::http::request_parser<boost::beast::http::string_body> parser_;
  bool has_head_ = false;
  bool chunked_ = false;                   // the answer that is streamed
  std::chrono::milliseconds patience_{0};  // of what is sent
  HttpRequest request_;
};

}  // namespace tombolo::transport
