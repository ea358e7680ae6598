// The coordinator's relay for ranks that can only make outgoing connections: joins two calls and
// copies bytes both ways until one of them ends. The protocol of a call is in splice.h.
//
//   auto splice = TRY(SpliceListener::open({.token = token, .ranks = 4}));
//   ... both ranks: endpoint->meet(peer, host, splice->port(), shape, deadline)
//
// One thread, however many are joined. Memory: 64 KiB per direction of a joined pair, besides the
// kernel's: a side is only read while the other takes what came before, so a slow reader slows the
// sender down. The kernel keeps at most 128 KiB of what goes out unsent; an urgent message cannot
// overtake what has come in and waits in the receiving kernel's buffer.
//
// Bounds: 512 calls that have not yet sent a whole preface (link/unauthenticated.h decides which is closed
// when more come), each for handshake_max; 4096 sockets in all. A call with a valid preface may
// wait for its peer without limit (the peer may be loading), one call per connection. Each refusal
// costs one log line. A call that hangs up is noticed; a silent host by TCP's keepalive, or within
// a minute of bytes that it does not acknowledge.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/result.h"
#include "base/time.h"
#include "perform/link/handshake.h"

namespace tombolo::transport {

class SpliceListener {
 public:
  struct Options {
    std::string listen_address = "127.0.0.1";
    uint16_t port = 0;      // 0: any that is free
    std::string network;    // allowed besides loopback (address.h)
    bool anywhere = false;  // the ranks have credentials, or plain TCP was asked for by name
    link::Token token;
    int32_t ranks = 0;
    SimDuration handshake_max{5'000'000'000};
    std::function<void(const std::string&)> log;  // called on the SpliceListener's thread
  };
  // Unusable where the port is taken, or leads out of this machine without `anywhere`.
  static Result<std::unique_ptr<SpliceListener>> open(Options options);
  // Closes all calls.
  ~SpliceListener();

  uint16_t port() const;

 private:
  class Driver;
  explicit SpliceListener(std::unique_ptr<Driver> driver);
  std::unique_ptr<Driver> driver_;
};

}  // namespace tombolo::transport
