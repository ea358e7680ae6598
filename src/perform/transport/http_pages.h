// A few pages over HTTP, for monitoring: read-only, unencrypted, hence on loopback unless the
// user says otherwise.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "base/result.h"
#include "perform/transport/http_server.h"

namespace tombolo::transport {

struct HttpPage {
  std::string content_type;
  std::function<std::string()> text;  // called on a serving thread
};

// Pages by path, "/metrics". Unusable where the address is taken or not of this host.
Result<std::unique_ptr<HttpServer>> serve_pages(const Address& at,
                                                std::map<std::string, HttpPage> pages);

// A page of such a server; kFailed where no answer comes within 2 s.
Result<std::string> http_page(const Address& at, const std::string& path);

}  // namespace tombolo::transport
