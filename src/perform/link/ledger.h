// A ledger: what is known of one connection of a link that outlives its connections.
//
// Out: the segments that were given to the connection, in their order, until a receipt confirms
// them. A connection keeps its order, so a receipt is one number: how many segments came. When the
// connection is lost, what is kept goes back to the outbox. A kept segment is a view of its
// message, which costs some 200 bytes and keeps the message's payload alive.
// (Receipts ride along with segments that go the other way, Link::pull_rider.)
//
// In: how many segments came, and since when one is not confirmed. A receipt is owed after
// `receipt_bytes`, or `receipt_after` the first segment that is not confirmed: so a sender keeps no
// more than that and what is on its way.
//
// Life: a side that had nothing to say for `ping_every` says so; one that heard nothing for
// `silence_max` takes the connection for lost. Pure; instants are passed in.
#pragma once

#include <deque>
#include <optional>

#include "base/result.h"
#include "base/time.h"
#include "perform/link/mailbox.h"

namespace tombolo::link {

class Ledger {
 public:
  struct Options {
    uint64_t receipt_bytes = 1 << 20;
    SimDuration receipt_after{20'000'000};
    SimDuration ping_every{1'000'000'000};
    SimDuration silence_max{10'000'000'000};
  };
  Ledger(const Options& options, SimTime now) : options_(options), said_at_(now), heard_at_(now) {}

  // Out.
  void give(const Outgoing& segment);
  // The peer has `segments` in all. Fails on more than were given, and on fewer than before.
  Status receipt(uint64_t segments);
  std::deque<Outgoing> take_back() { return std::exchange(kept_, {}); }
  bool keeps() const { return !kept_.empty(); }
  uint64_t kept_bytes() const { return kept_bytes_; }

  // In.
  void take(uint64_t bytes, SimTime now);  // a segment came
  bool owes_receipt(SimTime now) const;
  bool owes_nothing() const { return !unconfirmed_since_; }
  uint64_t report();  // what the receipt says, which is on its way now

  // Life.
  void said(SimTime now) { said_at_ = now; }
  void heard(SimTime now) { heard_at_ = std::max(heard_at_, now); }
  bool owes_ping(SimTime now) const { return now - said_at_ >= options_.ping_every; }
  bool silent(SimTime now) const { return now - heard_at_ >= options_.silence_max; }
  SimTime heard_at() const { return heard_at_; }
  // When one of these comes true, if nothing happens before.
  SimTime wake() const;

 private:
  Options options_;
  std::deque<Outgoing> kept_;
  uint64_t kept_bytes_ = 0;
  uint64_t given_ = 0;
  uint64_t came_ = 0;
  uint64_t came_bytes_ = 0;  // since the last receipt
  std::optional<SimTime> unconfirmed_since_;
  SimTime said_at_;
  SimTime heard_at_;
};

}  // namespace tombolo::link
