// Endpoint: a rank's door to all other ranks. The one place with sockets, threads and timers.
//
//   auto endpoint = TRY(Endpoint::create({.identity = {...}}, clock));
//   const LinkShape shape{.rate = 1_Gbps, .delay = {20'000'000}};
//   TRY(endpoint->connect(1, "127.0.0.1", port, shape, deadline));
//   TRY(endpoint->send(1, {.iteration = 3, .tensor = 7}, std::move(activations)));
//   Received gradients = TRY(endpoint->receive(1, {.iteration = 3, .tensor = 8}, deadline));
//   TRY(endpoint->close(deadline));
//
// One io thread per Endpoint moves the bytes; callers block on a condition, never poll. For two
// ranks, one dials and the other awaits; which is the caller's convention. A link has 1 to 16
// connections (LinkShape::connections of the side that dials) and is up when all have shaken hands.
//
// Messages go out by urgency, and those of equal urgency in the order of send(). A message is cut
// into segments, and a connection takes the next one of the most urgent message when its kernel can
// send it: an urgent message overtakes whatever is queued, but not what the kernel has (goodput.h).
//
// Copies: on the way out none in user space (frames are views of the payload, which is read once
// for the checksum), one into the kernel. On the way in one out of the kernel, one from the
// decoder's buffer into the message, and one read for the checksum; of each read from the socket,
// the part of a frame at its end moves once more, and so do segments that came before their turn.
//
// Memory: what is queued to send and what came but was not received yet; both follow from the
// caller's schedule, see queued_bytes(). A connection that has not proved to be of this job costs
// about 1 KiB, with TLS about 50, lives for the handshake deadline, and there are at most 256 of
// them.
//
// Errors: kLostPeer names a rank that went away without a goodbye; receive() wakes at once. A link
// that loses one connection is lost.
//
// With credentials every connection is TLS 1.3, and both sides show a certificate of one authority
// (trust/secure_stream.h) before they say hello. Without, it is plain TCP, and addresses that lead
// out of this machine are refused (address.h), for listening and dialing alike. With TLS each frame
// is copied once more on each side.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "base/clock.h"
#include "base/result.h"
#include "perform/link/handshake.h"
#include "perform/link/link_statistics.h"
#include "perform/link/mailbox.h"
#include "perform/trust/credentials.h"

namespace tombolo::transport {

class Endpoint {
 public:
  struct Options {
    link::Identity identity;
    std::string listen_address = "127.0.0.1";
    uint16_t port = 0;    // 0: any that is free
    std::string network;  // allowed beside loopback, "10.77.0.0/16" (address.h)
    std::optional<trust::Credentials> credentials;  // of this host; left out: plain TCP
    // Plain TCP to anywhere: whoever sits on the way reads the model and the job's token.
    bool plain_tcp = false;
    // The ranks share a host, hence a monotonic clock. Otherwise what a peer says about instants
    // counts for nothing: a message was sent when it came.
    bool one_clock = true;
    // TCP's, of all its connections, such as "cubic"; empty: the machine's. BBR, the default of
    // some machines, spreads a lone message of a few packets over a round trip.
    std::string congestion_control;
    uint64_t message_max = uint64_t{1} << 30;     // bytes
    SimDuration handshake_max{5'000'000'000};     // a stranger's time to say a whole hello
    std::function<void(const std::string&)> log;  // one line per refused connection; io thread
    // Somebody with the job's token says it is a rank that is here already; io thread.
    std::function<void(int32_t rank)> on_duplicate;

    Status check() const;
  };

  // Listens from now on. The clock must advance like CLOCK_MONOTONIC (SystemClock) and outlive the
  // endpoint; deadlines below are instants on it.
  static Result<std::unique_ptr<Endpoint>> create(Options options, const Clock& clock);
  // Without close() before, the peers see this rank as lost.
  ~Endpoint();

  uint16_t port() const;

  // Dials a peer, again and again while nobody listens there yet, and shakes hands.
  Status connect(int32_t peer, const std::string& host, uint16_t port, const link::LinkShape& shape,
                 SimTime deadline);
  // Waits until that peer has dialed. It may have done so before.
  Status await_peer(int32_t peer, const link::LinkShape& shape, SimTime deadline);

  // For two ranks that can only call out: both call this, with the address of one splice door
  // (splice_door.h). Then the lower rank is the one that dialed. TLS goes through, from end to end.
  Status meet(int32_t peer, const std::string& host, uint16_t port, const link::LinkShape& shape,
              SimTime deadline);

  // Queues a message and returns. Lower urgency goes first. Fails if the peer is gone, which
  // receive() would tell as well.
  Status send(int32_t peer, link::Tag tag, link::Payload payload, link::Urgency urgency = 0);
  // Blocks until the message is there and its link's delay is over. What a rank sent to itself is
  // there at once.
  Result<link::Received> receive(int32_t peer, link::Tag tag, SimTime deadline);
  // Of several messages the first that is there, and which one that is. Fails when one of the peers
  // is gone and none of the messages is here.
  struct Awaited {
    int32_t peer = 0;
    link::Tag tag;
  };
  struct Came {
    size_t which = 0;
    link::Received message;
  };
  Result<Came> receive_any(std::span<const Awaited> wanted, SimTime deadline);

  // Payload bytes handed to send() that the kernel has not taken yet.
  uint64_t queued_bytes() const;
  // What every link is doing; empty where the io thread does not answer within a second, or after
  // close(). Asks the kernel about every connection.
  std::vector<link::LinkStatistics> statistics();
  // Blocks until queued_bytes() is 0. Fails if a peer went away with bytes still queued for it.
  Status flush(SimTime deadline);

  // Fails all receives, sends and waits, now and later, with this error, and tells the peers: they
  // see kLostPeer with the same reason. close() afterwards makes sure that they hear it.
  void abort(Error error);
  // Sends what is queued, says goodbye, waits until every peer has heard it. The end: nothing can
  // be sent or received afterwards.
  Status close(SimTime deadline);

 private:
  class Driver;
  explicit Endpoint(std::unique_ptr<Driver> driver);
  std::unique_ptr<Driver> driver_;
};

}  // namespace tombolo::transport
