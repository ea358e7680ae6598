// The coordinator's door for ranks that can only call out: joins two calls and copies bytes both
// ways until one of them ends. What a call says is in splice.h.
//
//   auto door = TRY(SpliceDoor::open({.token = token, .ranks = 4}));
//   ... both ranks: endpoint->meet(peer, host, door->port(), shape, deadline)
//
// One thread, however many are joined. Memory: 64 KiB per direction of a joined pair, besides the
// kernel's: a side is only read while the other takes what came before, so a slow reader slows the
// sender down. Of what goes out the kernel keeps at most 128 KiB unsent; what has come in and
// waits in the receiving kernel's buffer no urgent message can overtake.
//
// Bounds: 512 that have not yet said a whole preface (strangers.h says who goes when more come),
// for the handshake's limit each; a member may wait for its peer as long as it likes (the peer may
// be loading), one per connection; 4096 sockets in all. Refusals cost one line of the log each. A
// member that goes away is noticed; silent hosts by TCP's keepalive, or within a minute of bytes
// that they do not acknowledge.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/result.h"
#include "base/time.h"
#include "perform/link/handshake.h"

namespace tombolo::transport {

class SpliceDoor {
 public:
  struct Options {
    std::string listen_address = "127.0.0.1";
    uint16_t port = 0;      // 0: any that is free
    std::string network;    // allowed beside loopback (address.h)
    bool anywhere = false;  // the ranks have credentials, or plain TCP was asked for by name
    link::Token token;
    int32_t ranks = 0;
    SimDuration handshake_max{5'000'000'000};
    std::function<void(const std::string&)> log;  // the door's thread
  };
  // Unusable where the port is taken, or leads out of this machine without `anywhere`.
  static Result<std::unique_ptr<SpliceDoor>> open(Options options);
  // Hangs up on everybody.
  ~SpliceDoor();

  uint16_t port() const;

 private:
  class Driver;
  explicit SpliceDoor(std::unique_ptr<Driver> driver);
  std::unique_ptr<Driver> driver_;
};

}  // namespace tombolo::transport
