#include "perform/transport/http_pages.h"

#include <httplib.h>

#include "base/check.h"

namespace tombolo::transport {
namespace {

constexpr time_t kPatience = 2;  // seconds

HttpReply reply_to(const HttpRequest& request, const std::map<std::string, HttpPage>& pages) {
  const auto page = pages.find(request.path);
  if (page == pages.end()) return {.status = 404};
  if (request.method != "GET" && request.method != "HEAD")
    return {.status = 405, .headers = {{"Allow", "GET, HEAD"}}};
  return {.content_type = page->second.content_type, .body = page->second.text()};
}

}  // namespace

Result<std::unique_ptr<HttpServer>> serve_pages(const Address& at,
                                                std::map<std::string, HttpPage> pages) {
  for (const auto& [path, page] : pages) {
    CHECK(path.starts_with('/') && page.text, "no writer of the page \"{}\"", path);
  }
  return HttpServer::open(
      {.listen = at, .limits = {.request_time = std::chrono::seconds(kPatience)}},
      {.answer = [pages = std::move(pages)](const HttpRequest& request, HttpClient&) {
        return reply_to(request, pages);
      }});
}

Result<std::string> http_page(const Address& at, const std::string& path) {
  httplib::Client client(at.host, at.port);
  client.set_connection_timeout(kPatience);
  client.set_read_timeout(kPatience);
  const auto answer = client.Get(path);
  if (!answer)
    return failed(fmt::format("no answer at {}: {}", at.text(), httplib::to_string(answer.error())),
                  "is the run still going?");
  if (answer->status != 200)
    return failed(fmt::format("{} answers {} to {}", at.text(), answer->status, path));
  return answer->body;
}

}  // namespace tombolo::transport
