// cpp-httplib's server, one request per connection, each through a stream of ours: the library
// bounds neither who waits for a thread, nor how long or how slow a request is.
//
// The library has no public hook for that, hence this class, the only one that derives from its
// server. Two signatures differ between its versions (0.11 to 0.18): what enqueue() returns, and
// whether process_request() takes the addresses of both ends, which nothing here reads.
#pragma once

#include <httplib.h>

#include <atomic>
#include <cstddef>

namespace tombolo::transport {

class HttpServer : public httplib::Server {
 public:
  // How many connections are served at once. Before it listens.
  void set_threads(size_t threads);

 protected:
  // Answers the request of this connection, or not. `waiting`: connections that have no thread yet.
  // Called on a serving thread; the socket is closed afterwards.
  virtual bool serve(socket_t socket, int waiting) = 0;
  // For serve(): reads the request from the stream and writes the answer to it.
  bool answer(httplib::Stream& stream);

 private:
  class CountingPool;
  bool process_and_close_socket(socket_t socket) final;
  template <class Self>
  static bool process(Self& self, httplib::Stream& stream);

  std::atomic<int> waiting_{0};
};

}  // namespace tombolo::transport
