#include "perform/transport/http_door.h"

#include <httplib.h>
#include <pthread.h>

#include <csignal>
#include <thread>

#include "base/check.h"

namespace tombolo::transport {
namespace {

constexpr time_t kPatience = 2;  // seconds
constexpr size_t kRequestMax = 8 * 1024;
constexpr size_t kThreads = 2;

}  // namespace

struct HttpDoor::Server {
  httplib::Server http;
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
  http.new_task_queue = [] { return new httplib::ThreadPool(kThreads); };
  http.set_read_timeout(kPatience);
  http.set_write_timeout(kPatience);
  http.set_keep_alive_max_count(1);
  http.set_payload_max_length(kRequestMax);
  // The library would share the port with another process that asks for the same.
  http.set_socket_options([](socket_t socket) {
    const int yes = 1;
    setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
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
  sigset_t all, before;  // signals are for the program's own threads
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  server->thread = std::thread([&http] { http.listen_after_bind(); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
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
