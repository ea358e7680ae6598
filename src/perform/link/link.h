// A link: two ranks, 1 to 16 connections, one stream of messages in each direction.
//
// This is one end of it, as a state machine: it receives hellos, frames and instants, and is asked
// what a connection should carry next. It knows neither sockets nor threads; endpoint.h has those,
// and link_ocean_test.cc runs it over simulated connections that delay, stall and break.
//
//   join ... join   every connection shakes hands; then the link is up
//   push, pull      messages out: whichever connection can take bytes pulls the next segment
//   accept          segments in, from any connection
//   close           what is queued goes out, then every connection says goodbye. A goodbye counts
//                   the messages, so the other end knows that it has all of them.
//
// A connection that ends without a goodbye is the end of the link: what was on its way is lost.
//
// Unless the link is resumable, because both sides said so. Then every connection has a ledger
// (ledger.h), which keeps what was not confirmed:
//
//   lose            a connection is over; what its ledger kept goes over the others
//   resume          it is there again, with a fresh ledger
//
// and goodbyes wait until everything is confirmed, so that after the first of them there is nothing
// left to lose. The link is finished when the connections that are there have brought theirs.
//
// Credit: each side says how many bytes may come before it takes one (its window), and receipts say
// how far that has moved. So an end that takes nothing stops the other one, and what lies here is
// bounded. Messages are taken by their tags, and the awaited one may come behind a window's worth
// of other messages; so while a caller waits for a message that is not here, the window moves with
// what came. The limit is then one window and one message of the largest size; beyond it the link
// is lost.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <variant>

#include "perform/link/assembler.h"
#include "perform/link/handshake.h"
#include "perform/link/ledger.h"
#include "perform/link/mailbox.h"

namespace tombolo::link {

constexpr uint64_t kCreditWindowMin = 1024;  // bytes

class Link {
 public:
  struct Options {
    Identity self;
    int32_t peer = 0;
    uint64_t message_max = 0;  // bytes
    uint64_t window = kUnlimited;
    Ledger::Options ledger;  // of a resumable link
  };
  explicit Link(Options options);

  int32_t peer() const { return options_.peer; }
  void set_shape(const LinkShape& shape) { outbox_.set_shape(shape); }  // before the first push
  Gathering& gathering() { return gathering_; }
  const Gathering& gathering() const { return gathering_; }
  bool up() const { return gathering_.complete(); }

  Outbox& outbox() { return outbox_; }
  const Outbox& outbox() const { return outbox_; }
  Inbox& inbox() { return inbox_; }

  // What this connection should carry next. Nothing; nothing before an instant; a frame of control;
  // a segment. Not after its goodbye. `tail`: this connection is a slow one (Outbox::take).
  using Pull = std::variant<std::monostate, SimTime, std::vector<std::byte>, Outgoing>;
  Pull pull(uint32_t connection, SimTime now, uint64_t tail = 0);
  // A receipt that may ride along with the segment just pulled, before it is due; empty: all that
  // came is confirmed. So two sides that answer each other send no frame for a receipt alone.
  std::vector<std::byte> pull_rider(uint32_t connection, SimTime now);
  // All that is to be sent was pushed: goodbyes follow it.
  void close() { closing_ = true; }
  bool said_goodbye(uint32_t connection) const { return said_.contains(connection); }

  // Once it is up: from now on it outlives its connections, all of which are here.
  void make_resumable(SimTime now);
  bool resumable() const { return resumable_; }
  void lose(uint32_t connection, SimTime now);
  void resume(uint32_t connection, SimTime now);
  // Of a resumable link's connection that is here; null: it is not.
  Ledger* ledger(uint32_t connection);
  uint64_t kept_bytes() const;  // given to connections and not confirmed
  // Neither side has said anything beyond its hello.
  bool untouched() const { return assembler_.came_bytes() == 0 && outbox_.messages() == 0; }
  // Nothing waits and nothing is kept: the other side has it all.
  bool delivered() const;

  // Credit. The other side's window, before anything is sent; how many wait for a message of this
  // link that is not here; and whether a receipt should go out for it alone.
  void set_their_window(uint64_t bytes) { outbox_.set_credit(bytes); }
  void begin_waiting() { ++waiting_; }
  void end_waiting() { --waiting_; }
  bool owes_credit() const;

  // A frame that is no hello and no failure; on an error the link is lost.
  Status accept(uint32_t connection, const Frame& frame, SimTime now);
  // pull() has something, although nothing was pushed: a receipt, or a ping.
  bool owes(uint32_t connection, SimTime now) const;
  bool heard_goodbye(uint32_t connection) const { return heard_.contains(connection); }
  // Every connection brought its goodbye, and every message is here.
  bool finished() const;

 private:
  bool owes_receipt(uint32_t connection, SimTime now) const;
  uint64_t credit() const;
  std::vector<std::byte> say_receipt(Ledger* ledger, SimTime now);
  Status check_sender(const FrameHeader& header) const;
  Status on_data(uint32_t connection, const Frame& frame, SimTime now);
  Status check_credit() const;
  Status on_receipt(uint32_t connection, const FrameHeader& header);
  Status on_goodbye(uint32_t connection, const FrameHeader& header);

  Options options_;
  Gathering gathering_;
  Outbox outbox_;
  Inbox inbox_;
  Assembler assembler_;
  uint64_t receipted_ = 0;
  uint64_t credit_said_ = 0;
  bool credit_lost_ = false;  // perhaps, with the connection that carried it
  int waiting_ = 0;
  bool closing_ = false;
  std::set<uint32_t> said_;
  std::set<uint32_t> heard_;
  std::optional<uint64_t> announced_;  // by the first goodbye
  bool resumable_ = false;
  std::map<uint32_t, Ledger> ledgers_;  // of a resumable link
  // Segments that came over the first connections while the last ones still shook hands.
  std::map<uint32_t, uint64_t> early_;
};

}  // namespace tombolo::link
