// An HTTP/1.1 server for the few pages and the API that Tombolo has: one request per connection, from
// any client, however slow. Boost.Beast parses (RFC 9112); sockets, bounds and threads are here.
//
//   what                         bound                          who exceeds it
//   connections being read       limits.connections             the oldest of the address with most is closed
//   a request line with headers  limits.head_bytes              431
//   a body                       limits.body_bytes              413
//   time for all of a request    limits.request_time            408
//   requests read, not answered  limits.threads + .waiting      429
//   a client that takes nothing  limits.write_time              the connection is closed
//
// One thread reads all requests, so a slow one costs a few kilobytes and keeps no other client out.
// `threads` others answer. Connections are closed only when the client has had time to read the
// answer, because closing a socket with unread bytes may discard the answer (RFC 9112, 9.6). Ranges
// are ignored: 8 KiB of them would ask for a page thousands of times (RFC 9110, 14.2, allows that).
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "perform/transport/address.h"

namespace tombolo::transport {

struct HttpRequest {
  std::string method;
  std::string path;  // without the query; %2F and its like are decoded
  std::vector<std::pair<std::string, std::string>> headers;  // names in lower case
  std::string body;

  // The first of this name, which is in lower case; empty where there is none.
  std::string header(std::string_view name) const;
};

// Who asked, while an answer is being made. From the thread that makes it.
class HttpClient {
 public:
  virtual ~HttpClient() = default;
  virtual bool gone() const = 0;  // it has closed its side
  // A piece of an answer that is streamed; false: it has left, or takes nothing.
  virtual bool write(std::string_view piece) = 0;
};

struct HttpReply {
  int status = 200;
  std::string content_type = {};
  std::string body = {};
  std::vector<std::pair<std::string, std::string>> headers = {};
  std::function<void(HttpClient&)> stream =
      {};  // instead of a body: writes pieces, and returns behind the last
};

struct HttpHandlers {
  // On a serving thread. Must be set.
  std::function<HttpReply(const HttpRequest& request, HttpClient& client)> answer;
  // Called before a body is read, on the reading thread, so it must be quick. A reply is the answer;
  // nullopt: the request continues. May be empty.
  std::function<std::optional<HttpReply>(const HttpRequest& head)> before_body;
  // The reply to what cannot be read or answered: 400, 408, 413, 417, 429, 431, 500, 501, 505. May be empty.
  std::function<HttpReply(int status)> refusal;
  // Of every request that had a head. From any thread. May be empty.
  std::function<void(const HttpRequest& request, int status)> answered;
};

struct HttpLimits {
  size_t threads = 2;
  size_t waiting = 8;
  size_t connections = 64;
  size_t head_bytes = 8 * 1024;
  size_t body_bytes = 0;
  std::chrono::milliseconds request_time{10'000};  // the handshake included
  std::chrono::milliseconds write_time{10'000};
};

struct HttpServerOptions {
  Address listen;
  std::string certificate, private_key;  // PEM files, for HTTPS; both or none
  HttpLimits limits;
};

class HttpServer {
 public:
  // Unusable where the address is taken or not of this host, and where certificate or key cannot be
  // read.
  static Result<std::unique_ptr<HttpServer>> open(HttpServerOptions options, HttpHandlers handlers);
  // Waits for answers that are being made; their clients may be told so by `answer`.
  ~HttpServer();

  const Address& address() const;

 private:
  class Inside;
  explicit HttpServer(std::unique_ptr<Inside> inside);
  std::unique_ptr<Inside> inside_;
};

}  // namespace tombolo::transport
