#include "perform/transport/http_door.h"

#include <httplib.h>
#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>

#include <chrono>
#include <thread>

#include "base/check.h"
#include "base/parallel.h"
#include "perform/transport/http_server.h"

namespace tombolo::transport {
namespace {

constexpr time_t kPatience = 2;  // seconds
constexpr std::chrono::milliseconds kPatienceWhereOthersWait{500};
constexpr size_t kRequestMax = 8 * 1024;
constexpr size_t kThreads = 2;
constexpr int kWaitingMax = 8;  // connections; beyond, they are closed unheard

}  // namespace

namespace http {  // not unnamed: HttpDoor::Server has a member of these

// One request: so many bytes and so much time for all of it, whatever they are. The library bounds
// neither the length of a line nor how slowly one comes.
class OneRequest : public httplib::Stream {
 public:
  OneRequest(socket_t socket, std::chrono::milliseconds patience)
      : socket_(socket), until_(std::chrono::steady_clock::now() + patience) {}

  bool is_readable() const override { return left_ > 0 && ready(POLLIN); }
  bool is_writable() const override { return ready(POLLOUT); }
  ssize_t read(char* at, size_t size) override {
    if (!is_readable()) return -1;
    const ssize_t got = recv(socket_, at, std::min(size, left_), 0);
    if (got > 0) left_ -= static_cast<size_t>(got);
    return got;
  }
  ssize_t write(const char* at, size_t size) override {
    if (!is_writable()) return -1;
    return send(socket_, at, size, MSG_NOSIGNAL | MSG_DONTWAIT);
  }
  void get_remote_ip_and_port(std::string&, int&) const override {}
  void get_local_ip_and_port(std::string&, int&) const override {}
  socket_t socket() const override { return socket_; }

 private:
  bool ready(short events) const {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        until_ - std::chrono::steady_clock::now());
    pollfd asked{.fd = socket_, .events = events, .revents = 0};
    return left.count() > 0 && poll(&asked, 1, static_cast<int>(left.count())) > 0;
  }

  socket_t socket_;
  size_t left_ = kRequestMax;
  std::chrono::steady_clock::time_point until_;
};

class DoorServer : public HttpServer {
  bool serve(socket_t socket, int waiting) override {
    if (waiting > kWaitingMax) return false;
    OneRequest request(socket,
                       waiting > 0 ? kPatienceWhereOthersWait : std::chrono::seconds(kPatience));
    return answer(request);
  }
};

}  // namespace http

struct HttpDoor::Server {
  http::DoorServer http;
  std::thread thread;
};

HttpDoor::HttpDoor(std::unique_ptr<Server> server, Address address)
    : server_(std::move(server)), address_(std::move(address)) {}

HttpDoor::~HttpDoor() {
  server_->http.stop();
  if (server_->thread.joinable()) server_->thread.join();
}

Result<std::unique_ptr<HttpDoor>> HttpDoor::open(const Address& at,
                                                 std::map<std::string, HttpPage> pages) {
  for (const auto& [path, page] : pages) {
    CHECK(path.starts_with('/') && page.text, "nobody writes the page \"{}\"", path);
  }
  auto server = std::make_unique<Server>();
  httplib::Server& http = server->http;
  server->http.set_threads(kThreads);
  http.set_payload_max_length(kRequestMax);
  // The library would share the port with another process that asks for the same.
  http.set_socket_options([](socket_t socket) {
    const int yes = 1;
    setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  });
  // Pages are whole: 8 KiB of overlapping ranges would ask for a page 2,700 times. The request is the
  // library's own, and no constant.
  http.set_pre_routing_handler([](const httplib::Request& request, httplib::Response&) {
    const_cast<httplib::Request&>(request).ranges.clear();
    return httplib::Server::HandlerResponse::Unhandled;
  });
  for (auto& [path, page] : pages) {
    http.Get(path, [page = std::move(page)](const httplib::Request&, httplib::Response& response) {
      response.set_content(page.text(), page.content_type);
    });
  }
  Address here = at;
  if (at.port == 0) {
    const int port = http.bind_to_any_port(at.host);
    if (port <= 0)
      return unusable(fmt::format("cannot listen on {}", at.text()), "an address of this host");
    here.port = static_cast<uint16_t>(port);
  } else if (!http.bind_to_port(at.host, at.port)) {
    return unusable(fmt::format("cannot listen on {}", at.text()),
                    "an address of this host with a free port; port 0: any");
  }
  server->thread = start_without_signals([&http] { http.listen_after_bind(); });
  while (!http.is_running()) std::this_thread::yield();  // else stop() could come before the start
  return std::unique_ptr<HttpDoor>(new HttpDoor(std::move(server), std::move(here)));
}

Result<std::string> http_page(const Address& at, const std::string& path) {
  httplib::Client client(at.host, at.port);
  client.set_connection_timeout(kPatience);
  client.set_read_timeout(kPatience);
  const auto answer = client.Get(path);
  if (!answer)
    return failed(
        fmt::format("nobody answers at {}: {}", at.text(), httplib::to_string(answer.error())),
        "is the run still going?");
  if (answer->status != 200)
    return failed(fmt::format("{} answers {} to {}", at.text(), answer->status, path));
  return answer->body;
}

}  // namespace tombolo::transport
