// The Endpoint over sockets, with timers and an io thread. Internal: callers include endpoint.h.
//
// Two threads meet here. Callers (endpoint.cc) put messages into a peer's outbox and wait for its
// inbox; the io thread (driver*.cc) owns every Connection and moves bytes between sockets and
// peers. Peers are under the mutex, Connections are the io thread's alone, and asio::post carries
// work over. What a link is, and when it is up or ended, is decided in link.h.
#pragma once

#include <array>
#include <asio.hpp>
#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "perform/link/frame.h"
#include "perform/link/goodput.h"
#include "perform/link/handshake.h"
#include "perform/link/link.h"
#include "perform/link/link_tuner.h"
#include "perform/link/recovery.h"
#include "perform/link/unauthenticated.h"
#include "perform/transport/driver_states.h"
#include "perform/transport/endpoint.h"
#include "perform/transport/refusal_lines.h"
#include "perform/transport/tcp_state.h"
#include "perform/trust/secure_stream.h"

namespace tombolo::transport {
namespace detail {

using asio::ip::tcp;

// One socket, from the first byte to the last. Belongs to the io thread.
struct Connection {
  explicit Connection(asio::io_context& io, Origin origin_in = Origin::kAccepted)
      : origin(origin_in),
        socket(io),
        handshake_timer(io),
        departure_timer(io),
        life_timer(io),
        decoder(link::kUnauthenticatedPayloadMax) {}

  const Origin origin;
  ConnectionState state = ConnectionState::kHandshake;
  Incoming incoming = Incoming::kNothing;
  Outgoing outgoing = Outgoing::kOpen;
  Writing writing = Writing::kIdle;

  tcp::socket socket;
  asio::steady_timer handshake_timer;
  asio::steady_timer departure_timer;  // of a paced link, and before it is dialed again
  asio::steady_timer life_timer;       // of a resumable link
  link::FrameDecoder decoder;
  std::unique_ptr<trust::SecureStream> secure;  // between socket and decoder; null: plain TCP
  std::string remote;                           // "127.0.0.1:51234"
  int32_t dialed = -1;                          // the rank we called; -1: it called us
  int32_t meets = -1;                           // the rank we meet through a splice (splice.h)
  uint64_t unauthenticated = 0;                 // its number among unauthenticated_; 0: it is none
  int32_t rank = -1;                            // the peer, once it proved to be one
  link::LinkPart part;                          // which connection of its link
  tcp::endpoint at;                             // whom we dial,
  SimTime dial_until;                           // and for how long
  SimTime heard_at;                             // bytes came
  SimTime frame_at;                             // a frame was whole
  SimTime life_at;                              // when the life timer looks
  bool waiting = false;                         // until the kernel takes more; for slow networks
  bool writable = false;                        // it does
  link::GoodputMeter meter;                     // of a slow network
  SimTime looked_at;                            // when statistics() last read it,
  uint64_t looked_acknowledged = 0;             // and what was acknowledged then
  uint32_t mark = 0;                            // set_unsent_mark
  std::deque<std::vector<std::byte>> control;   // hello, goodbye, failure: before any data
  std::vector<std::byte> control_out;           // what is being written: either this (with TLS
                                                // always this)
  std::vector<std::byte> rider_out;             // or these three
  link::EncodedHeader header_out;
  link::Outgoing data_out;

  bool is_open() const {
    return state == ConnectionState::kHandshake || state == ConnectionState::kLinked;
  }
  bool in_handshake() const { return state == ConnectionState::kHandshake; }
  int32_t called() const { return std::max(dialed, meets); }  // the rank; -1: it called us
  bool recalls() const { return origin == Origin::kRecalled; }
  // From the last words on nothing but the control frames above is sent.
  bool says_last() const { return outgoing != Outgoing::kOpen; }
  void link_as(int32_t peer, const link::LinkPart& its_part);
};
using ConnectionPtr = std::shared_ptr<Connection>;

// What both threads know of a rank; under the driver's mutex.
struct Peer {
  Peer(asio::io_context& io, link::Link::Options options)
      : link(std::move(options)), grace_timer(io) {}

  link::LinkShape shape;
  link::Link link;
  std::optional<link::LinkTuner> tuner;
  SimTime tuned_at;
  uint32_t pulling = link::kConnectionsMax;       // of the connections, those below this number
  bool through = false;                           // a splice: both sides called
  uint64_t bytes_out = 0;                         // of the frames that are being written
  std::map<uint32_t, ConnectionPtr> connections;  // open, their handshakes done
  std::vector<ConnectionPtr> dialing;             // ours, until the link is up
  bool timer_set = false;                         // by one connection, for the next departure
  LinkState state = LinkState::kDown;
  Told told = Told::kUnclaimed;
  bool dropped = false;              // it went away with something queued for it
  std::optional<Error> unreachable;  // why connect() failed
  Error end;                         // of kEnded: why nothing more will come

  // Of a resumable link. `recovery`: which connections are redialed, and when. `calls`: the address
  // that we redial; empty: the peer redials.
  std::optional<link::Recovery> recovery;
  std::optional<tcp::endpoint> calls;
  std::map<uint32_t, uint32_t> rounds;        // how often we called again, by connection
  std::map<uint32_t, ConnectionPtr> redials;  // that are under way
  std::map<uint32_t, ConnectionPtr> parked;   // that were silent, until they may be hung up on
  asio::steady_timer grace_timer;
  SimTime heard_at;  // over connections that are gone

  bool came_up() const { return state != LinkState::kDown; }
  bool ended() const { return state == LinkState::kEnded; }
  bool is_up() const { return came_up() && !ended(); }
  bool claimed() const { return told != Told::kUnclaimed; }
  // The lowest of those that are here pull.
  bool pulls(const Connection& c) const {
    const auto at = connections.find(c.part.connection);
    return static_cast<uint32_t>(std::distance(connections.begin(), at)) < pulling;
  }
  uint64_t queued_bytes() const { return link.outbox().queued_bytes() + bytes_out; }
  bool idle() const { return link.outbox().empty() && bytes_out == 0; }
  bool delivered() const { return idle() && (!link.resumable() || link.delivered()); }
  void drop_queue(bool lost = true) {
    dropped = dropped || !(link.outbox().all_there() || (lost ? delivered() : idle()));
    link.outbox().clear();
    bytes_out = 0;
  }
};

std::string text(const tcp::endpoint& at);  // "127.0.0.1:51234"
Error lost(int32_t rank, const std::string& reason);

}  // namespace detail

class Driver final : public Endpoint {
  using tcp = asio::ip::tcp;
  using Peer = detail::Peer;
  using ConnectionPtr = detail::ConnectionPtr;
  using Lock = std::unique_lock<std::mutex>;

 public:
  Driver(Options options, const Clock& clock)
      : options_(std::move(options)), clock_(clock), acceptor_(io_), accept_timer_(io_) {}
  ~Driver() override { stop(); }

  Status listen();
  uint16_t port() const override { return port_; }
  Status connect(int32_t rank, const std::string& host, uint16_t port, const link::LinkShape& shape,
                 SimTime deadline) override;
  Status await_peer(int32_t rank, const link::LinkShape& shape, SimTime deadline) override;
  Status meet(int32_t rank, const std::string& host, uint16_t port, const link::LinkShape& shape,
              SimTime deadline) override;
  Status send(int32_t rank, link::Tag tag, link::Payload payload, link::Urgency urgency) override;
  Result<Came> receive_any(std::span<const Awaited> wanted, SimTime deadline) override;
  void welcome_all(link::Tag tag) override;
  Result<News> next(SimTime deadline) override;
  uint64_t queued_bytes() const override;
  std::vector<link::LinkStatistics> statistics() override;
  Status flush(SimTime deadline) override;
  void abort(Error error) override;
  Status close(SimTime deadline) override;

 private:
  asio::error_code listen_at(const tcp::endpoint& at);

  // Any thread.
  Status link(int32_t rank, const link::LinkShape& shape, std::optional<tcp::endpoint> dial,
              bool through, SimTime deadline);
  std::optional<News> news_of(int32_t rank);
  void tell_news(int32_t rank);
  void check_rank(int32_t rank) const;
  Peer& peer(int32_t rank);
  link::Link::Options link_options(int32_t rank) const;
  void wait(Lock& lock, SimTime deadline);
  void wait_for(Lock& lock, const std::vector<Peer*>& peers, SimTime deadline);
  void await_room(Lock& lock, Peer& p, uint64_t bytes);
  void tell_credit(const Peer& p);
  Status drained(int32_t rank, const Peer& peer) const;
  void call(int32_t rank, Peer& p, const tcp::endpoint& at, SimTime deadline);
  void uncall(Peer& p, const Error& error);
  std::string reason_of_abort() const;
  bool call_again_later(Lock& lock, Peer& p, SimTime readable_by, SimTime deadline);
  Error unlinked(int32_t rank, const Peer& p, const std::optional<tcp::endpoint>& dial) const;
  void stop();

  // The io thread, in the order of a connection's life.
  void accept_next();
  void welcome(const ConnectionPtr& c);
  void evict(const ConnectionPtr& c);
  void dial(const ConnectionPtr& c);
  void ask_for_peer(const ConnectionPtr& c);
  void choose_congestion_control(int socket, const std::string& name);
  void begin(const ConnectionPtr& c);
  void limit_handshake(const ConnectionPtr& c);
  void read(const ConnectionPtr& c);
  void open_sealed(const ConnectionPtr& c, size_t bytes);
  void decode(const ConnectionPtr& c);
  Status on_frame(const ConnectionPtr& c, const link::Frame& frame);
  Status on_hello(const ConnectionPtr& c, const link::Frame& frame);
  Status join(const ConnectionPtr& c, const link::Caller& caller,
              std::vector<ConnectionPtr>& outdated);
  Status rejoin(const ConnectionPtr& c, const link::Caller& caller, Peer& p);
  void adopt(const ConnectionPtr& c, const link::LinkPart& part, Peer& p);
  void call_refused(const ConnectionPtr& c, const Error& error);
  bool forsaken(const Peer& p, const link::Caller& caller) const;
  void begin_anew(Peer& p, std::vector<ConnectionPtr>& outdated);
  void make_resumable(Peer& p, const link::Terms& theirs);
  void dial_others(const ConnectionPtr& first);
  Status on_link_frame(const ConnectionPtr& c, const link::Frame& frame);
  void pump(const ConnectionPtr& c);
  bool say_secure(const ConnectionPtr& c);
  void pump_all(int32_t rank);
  bool pull(const ConnectionPtr& c);
  void await_departure(const ConnectionPtr& c, Peer& p, SimDuration wait);
  void await_writable(const ConnectionPtr& c);
  uint64_t adapt(const ConnectionPtr& c, Peer& p, SimTime now);
  void tune(int32_t rank, Peer& p, SimTime now);
  void choose(int32_t rank, Peer& p);
  std::vector<link::LinkStatistics> look();
  template <typename Buffers>
  void write(const ConnectionPtr& c, const Buffers& buffers);
  template <typename Buffers>
  void transmit(const ConnectionPtr& c, const Buffers& buffers);
  void say_last(const ConnectionPtr& c, std::vector<std::byte> frame);
  void refuse(const ConnectionPtr& c, const Error& error);
  void end_of_stream(const ConnectionPtr& c, link::Loss loss, const std::string& reason);
  void shut(const ConnectionPtr& c);
  void known(const ConnectionPtr& c);
  void end(const ConnectionPtr& c, const Error& error);
  void end_link(int32_t rank, const Error& error);
  void prepare(int32_t rank);
  void prepare(const ConnectionPtr& c, Peer& p);

  // Of a resumable link.
  void lose(const ConnectionPtr& c, link::Loss loss, const std::string& why);
  void detach(const ConnectionPtr& c, link::Loss loss, const std::string& why, Peer& p);
  void park(const ConnectionPtr& c);
  void close_parked(const ConnectionPtr& c);
  void recover(int32_t rank);
  void redial(int32_t rank, uint32_t connection, Peer& p);
  void call_failed(const ConnectionPtr& c, const std::string& why);
  void redial_refused(const ConnectionPtr& c, const Error& error);
  void look_after(const ConnectionPtr& c);
  void check_life(const ConnectionPtr& c);

  const Options options_;
  const Clock& clock_;
  asio::io_context io_;
  asio::executor_work_guard<asio::io_context::executor_type> work_ = asio::make_work_guard(io_);
  tcp::acceptor acceptor_;
  asio::steady_timer accept_timer_;
  uint16_t port_ = 0;
  std::shared_ptr<const trust::SecureContext> secure_;  // null: plain TCP
  // The io thread's.
  link::Unauthenticated unauthenticated_;
  std::map<uint64_t, ConnectionPtr> unauthenticated_by_number_;  // by their number
  uint64_t next_unauthenticated_ = 0;
  uint64_t evicted_ = 0;  // and not logged yet
  SimTime evicted_logged_;
  RefusalLines refusals_;
  std::array<std::byte, 4096> unread_;  // what comes from those that were refused
  std::thread thread_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;  // a change of anything below
  std::map<int32_t, Peer> peers_;
  link::Inbox own_;  // what this rank sent to itself
  // After welcome_all(): the tag of the messages that next() returns, and ranks that may have news.
  std::optional<link::Tag> welcomed_;
  std::deque<int32_t> news_;
  bool news_are_dense_ = false;  // the last one came soon after the one before
  int waiting_for_room_ = 0;
  std::optional<Error> aborted_;
  bool closing_ = false;
};

}  // namespace tombolo::transport
