// Endpoint: one rank's connections to all other ranks. The only place with sockets, threads and
// timers.
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
// Memory: messages that are queued to send, and messages that came and were not received yet. Both
// follow from the caller's schedule, see queued_bytes(), and are bounded by credit: a peer whose
// messages are not received is stopped at inbox_max, and send() waits for room at outbox_max. An
// unauthenticated connection costs about 1 KiB, with TLS about 50 KiB, lives until the handshake
// deadline, and there are at most 512 of them (link/unauthenticated.h). With a grace each connection also
// keeps what was not confirmed: views of messages, for as long as a round trip, a receipt (1 MiB or
// 20 ms) and the socket's buffers last.
//
// Errors: kLostPeer names a rank that went away without a goodbye; receive() wakes at once. Without
// a grace, a link that loses one connection is lost.
//
// A connection is not a link. With a grace on both sides a link outlives its connections: what the
// peer has not confirmed is kept, and when a connection is lost (reset, ended without a goodbye,
// silent for silence_max, corrupt) it is sent again over the others. The side that dialed redials
// the lost one, also through a splice. The link is lost only when it had no connection for the
// whole grace; kLostPeer then says for how long, and why. Where the last connection was ended, not
// silent, ended_max counts instead (recovery.h). Nothing is delivered twice, and order and urgency
// are kept. Whatever the grace, a link is lost at once if the peer gives up (abort), was restarted
// (another Identity::incarnation) or contradicts itself. A connection that was idle for ping_every
// sends a ping, so both sides notice within silence_max a path that drops everything. A connection
// that was silent stays open until the other side is heard again: closing it would look like the
// end of this process.
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
#include <utility>
#include <variant>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "perform/link/handshake.h"
#include "perform/link/link_statistics.h"
#include "perform/link/mailbox.h"
#include "perform/transport/address.h"
#include "perform/trust/credentials.h"

namespace tombolo::transport {

class Endpoint {
 public:
  struct Options {
    link::Identity identity;
    std::string listen_address = "127.0.0.1";
    uint16_t port = 0;       // 0: any that is free
    uint16_t port_last = 0;  // not 0: the first that is free, from `port` on to this one
    std::string network;     // allowed besides loopback, "10.77.0.0/16" (address.h)
    std::optional<trust::Credentials> credentials;  // of this host; left out: plain TCP
    // Plain TCP to any address: anyone on the path can read the model and the job's token.
    bool plain_tcp = false;
    // The ranks share a host, hence a monotonic clock. Otherwise a peer's instants are ignored: a
    // message counts as sent when it came.
    bool one_clock = true;
    // TCP's, of all its connections, such as "cubic"; empty: the machine's. BBR, the default of
    // some machines, spreads a lone message of a few packets over a round trip.
    std::string congestion_control;
    uint64_t message_max = uint64_t{16} << 30;  // bytes
    // Of each link, in bytes: what may come before some of it is received (link.h), and what may be
    // queued to send before send() blocks.
    uint64_t inbox_max = uint64_t{4} << 30;
    uint64_t outbox_max = uint64_t{16} << 30;
    // How long a link may be without any connection before its peer is lost; the shorter one of the
    // two sides counts. 0: a link that loses a connection is lost.
    SimDuration grace{};
    // The same where the other side ended the last connection, or a gateway did; 0: the grace.
    SimDuration ended_max{};
    // These three with a grace only. How long a receipt may wait for a segment to ride along with;
    SimDuration receipt_after{20'000'000};
    SimDuration ping_every{1'000'000'000};     // a connection sends at least a ping this often,
    SimDuration silence_max{10'000'000'000};   // and is lost when nothing came for this long
    SimDuration handshake_max{5'000'000'000};  // for a new connection to send a whole hello
    // True: a second process that claims the rank of a connected peer is refused as a duplicate.
    // False: it is that rank, restarted, and the link with the process before ends.
    bool first_stays = false;
    // One line per connection that was refused or came back; io thread. One that stays away is
    // reported by the call that waits for it.
    std::function<void(const std::string&)> log;
    // Another process with the job's token claims the rank of a connected peer; io thread.
    std::function<void(int32_t rank)> on_duplicate;

    Status check() const;
  };

  // Over sockets; listens from now on. The clock must advance like CLOCK_MONOTONIC (SystemClock)
  // and outlive the endpoint; deadlines below are instants on it.
  static Result<std::unique_ptr<Endpoint>> create(Options options, const Clock& clock);
  // Without close() before, the peers see this rank as lost.
  virtual ~Endpoint() = default;

  virtual uint16_t port() const = 0;

  // Dials a peer, again and again until it listens there, and shakes hands.
  virtual Status connect(int32_t peer, const std::string& host, uint16_t port,
                         const link::LinkShape& shape, SimTime deadline) = 0;
  // Waits until that peer has dialed. It may have done so before.
  virtual Status await_peer(int32_t peer, const link::LinkShape& shape, SimTime deadline) = 0;

  // For two ranks that can only make outgoing connections: both call this, with the address of the
  // same SpliceListener (splice_listener.h). The lower rank then counts as the one that dialed. TLS is end to
  // end.
  virtual Status meet(int32_t peer, const std::string& host, uint16_t port,
                      const link::LinkShape& shape, SimTime deadline) = 0;

  // Queues a message and returns. Blocks while outbox_max is queued for this peer, and meanwhile
  // gives all peers credit, so that two ranks that wait for each other do not deadlock. Lower urgency
  // goes first. Fails if the peer is gone, as receive() would.
  virtual Status send(int32_t peer, link::Tag tag, link::Payload payload,
                      link::Urgency urgency) = 0;
  Status send(int32_t peer, link::Tag tag, link::Payload payload) {
    return send(peer, tag, std::move(payload), 0);
  }
  struct Awaited {
    int32_t peer = 0;
    link::Tag tag;
  };
  struct Came {
    size_t which = 0;
    link::Received message;
  };
  // Blocks until the message is there and its link's delay is over. What a rank sent to itself is
  // there at once.
  Result<link::Received> receive(int32_t peer, link::Tag tag, SimTime deadline) {
    const Awaited wanted{peer, tag};
    return std::move(TRY(receive_any({&wanted, 1}, deadline)).message);
  }
  // Of several messages the first that is there, and which one that is. Fails when one of the peers
  // is gone and none of the messages is here.
  virtual Result<Came> receive_any(std::span<const Awaited> wanted, SimTime deadline) = 0;

  // For a rank that serves all others (a launcher): from now on each of them may connect, and next()
  // returns what becomes of them, in the order of arrival. One thread at a time may call next(); a
  // call costs the same however many ranks there are.
  virtual void welcome_all(link::Tag tag) = 0;
  struct Up {};  // all connections of its link are here
  struct News {
    using What = std::variant<Up, link::Received, Error>;
    int32_t peer = 0;
    What what;  // an error: nothing comes after it
  };
  // kFailed at the deadline, and after abort().
  virtual Result<News> next(SimTime deadline) = 0;

  // Payload bytes handed to send() that the kernel has not taken yet.
  virtual uint64_t queued_bytes() const = 0;
  // What every link is doing; empty where the io thread does not answer within a second, or after
  // close(). Asks the kernel about every connection.
  virtual std::vector<link::LinkStatistics> statistics() = 0;
  // Blocks until queued_bytes() is 0. Fails if a peer went away with bytes still queued for it.
  virtual Status flush(SimTime deadline) = 0;

  // Fails all receives, sends and waits, now and later, with this error, and tells the peers: they
  // see kLostPeer with the same reason. close() afterwards makes sure that they hear it.
  virtual void abort(Error error) = 0;
  // Sends what is queued, says goodbye, waits until every peer has heard it. The end: nothing can
  // be sent or received afterwards.
  virtual Status close(SimTime deadline) = 0;
};

// The network as a process sees it, passed in: the machine's, or a simulated one.
class Sockets {
 public:
  virtual ~Sockets() = default;
  virtual Result<std::unique_ptr<Endpoint>> open(Endpoint::Options options, Clock& clock) = 0;
  // Whether a process accepts connections there; blocks for `patience` at most.
  virtual bool takes_connections(const Address& at, SimDuration patience) = 0;
};
Sockets& system_sockets();

}  // namespace tombolo::transport
