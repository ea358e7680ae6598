#include "perform/transport/http_server.h"

#include <sys/socket.h>
#include <unistd.h>

#include <functional>
#include <utility>

namespace tombolo::transport {

class HttpServer::CountingPool final : public httplib::TaskQueue {
 public:
  CountingPool(size_t threads, std::atomic<int>& waiting) : pool_(threads), waiting_(waiting) {}

  // void in 0.11, later whether there is room, which there always is.
  using Enqueued = decltype(std::declval<httplib::TaskQueue&>().enqueue(nullptr));
  Enqueued enqueue(std::function<void()> serve) override {
    ++waiting_;
    return pool_.enqueue(std::move(serve));
  }
  void shutdown() override { pool_.shutdown(); }

 private:
  httplib::ThreadPool pool_;
  std::atomic<int>& waiting_;
};

void HttpServer::set_threads(size_t threads) {
  new_task_queue = [this, threads] { return new CountingPool(threads, waiting_); };
}

// A template, because the call that this version of the library lacks must not be compiled.
template <class Self>
bool HttpServer::process(Self& self, httplib::Stream& stream) {
  constexpr bool kCloseConnection = true;
  bool closed = false;
  if constexpr (requires { self.process_request(stream, kCloseConnection, closed, nullptr); }) {
    return self.process_request(stream, kCloseConnection, closed, nullptr);
  } else {
    return self.process_request(stream, "", 0, "", 0, kCloseConnection, closed, nullptr);
  }
}

bool HttpServer::answer(httplib::Stream& stream) { return process(*this, stream); }

bool HttpServer::process_and_close_socket(socket_t socket) {
  const bool served = serve(socket, --waiting_);
  shutdown(socket, SHUT_RDWR);
  close(socket);
  return served;
}

}  // namespace tombolo::transport
