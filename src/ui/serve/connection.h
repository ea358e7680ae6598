// One request of one client, over TCP or TLS: so many bytes and so much time for all of it, whatever
// they are. The HTTP library bounds neither the length of a line, nor of a chunked body, nor how
// slowly one comes.
#pragma once

#include <httplib.h>

#include <chrono>
#include <memory>

namespace tombolo::serve {

struct ConnectionLimits {
  size_t request_bytes = 0;
  std::chrono::milliseconds request_time{0};  // the handshake included
  std::chrono::milliseconds write_time{0};    // without a byte going out
};

class Connection final : public httplib::Stream {
 public:
  // `tls`: null for plain TCP. The socket, which stays the caller's, is made non-blocking.
  Connection(socket_t socket, SSL_CTX* tls, ConnectionLimits limits);
  ~Connection() override;

  bool open();            // TLS: the handshake; false where it did not come to an end in time
  bool gone() const;      // the client has closed its side
  void close_politely();  // TLS: says that this is all

  // The one that this thread serves: handlers of the library see requests without their connection.
  static Connection* of_this_thread();

  bool is_readable() const override;
  bool is_writable() const override;
  ssize_t read(char* at, size_t size) override;
  ssize_t write(const char* at, size_t size) override;
  void get_remote_ip_and_port(std::string&, int&) const override {}
  void get_local_ip_and_port(std::string&, int&) const override {}
  socket_t socket() const override { return socket_; }

 private:
  using Instant = std::chrono::steady_clock::time_point;
  struct Free {
    void operator()(SSL* tls) const { SSL_free(tls); }
  };
  bool wait(short events, Instant until) const;
  // What TLS wants before it goes on, until then; false: it failed, or time is over.
  bool await_tls(int result, Instant until) const;

  socket_t socket_;
  ConnectionLimits limits_;
  Instant request_until_;
  size_t bytes_left_;
  bool tls_broken_ = false;
  std::unique_ptr<SSL, Free> tls_;
};

}  // namespace tombolo::serve
