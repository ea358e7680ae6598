// A few pages over HTTP, for monitoring: read-only, unencrypted, hence on loopback unless somebody
// says otherwise. Two threads serve; a request has 2 s (half a second where others wait) and 8 KiB,
// all its lines together, and eight may wait: whoever reaches the port costs no more than that.
// cpp-httplib is behind it.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "base/result.h"
#include "perform/transport/address.h"

namespace tombolo::transport {

struct HttpPage {
  std::string content_type;
  std::function<std::string()> text;  // called on a serving thread
};

class HttpDoor {
 public:
  // Pages by path, "/metrics". Unusable where the address is taken or not of this host.
  static Result<std::unique_ptr<HttpDoor>> open(const Address& at,
                                                std::map<std::string, HttpPage> pages);
  ~HttpDoor();  // waits for requests that are being served
  const Address& address() const { return address_; }

 private:
  struct Server;
  HttpDoor(std::unique_ptr<Server> server, Address address);
  std::unique_ptr<Server> server_;
  Address address_;
};

// The page behind such a door; kFailed where nobody answers within 2 s.
Result<std::string> http_page(const Address& at, const std::string& path);

}  // namespace tombolo::transport
