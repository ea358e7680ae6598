// AstraMessages: how sends meet receives, and hand their messages to a law (message_law.h).
//
// Messages between nodes that agree on sender, receiver, tag and bytes are matched in order. With a
// rendezvous they leave when they are asked for (astra_rendezvous.cc). Messages of phases need no
// matching: the collectives know who waits for them.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <unordered_map>
#include <vector>

#include "predict/astra/machine_common.h"
#include "predict/astra/message_law.h"

namespace tombolo::astra {

class AstraMessages : private MessageRun {
 public:
  static constexpr int64_t kRequest = 8192;  // bytes that ask for a message

  explicit AstraMessages(Common& common);

  // What hears of a message between nodes: a node of a rank, a node of a custom collective, or half
  // a rendezvous.
  struct Party {
    enum Kind : uint8_t { kOfRank, kCustom, kRendezvous };
    uint32_t owner = UINT32_MAX;  // rank, or custom run, or half of a rendezvous
    uint32_t node = 0;            // below 2^30
    Kind kind = kOfRank;
    bool exists() const { return owner != UINT32_MAX; }
    uint64_t packed() const { return uint64_t{owner} << 32 | node << 2 | kind; }
    static Party unpacked(uint64_t p) {
      return {static_cast<uint32_t>(p >> 32), static_cast<uint32_t>(p) >> 2,
              static_cast<Kind>(p & 3)};
    }
  };

  // By nodes of a rank; with a rendezvous when the other end agrees.
  void offer(int32_t rank, int32_t peer, int64_t tag, int64_t bytes, Party sender);
  void ask(int32_t peer, int32_t rank, int64_t tag, int64_t bytes, Party receiver);
  // Whether a message is asked for and not sent.
  bool asked_in_vain(int32_t peer, int32_t rank, int64_t tag, int64_t bytes) const;

  // Between NPUs, by a phase.
  void send_in_phase(const PhaseMessage& message, int32_t from, int32_t to, int64_t bytes) {
    carry(new_phase_message(message, from, to, bytes));
  }
  // By an event of this instant.
  void send_in_phase_soon(const PhaseMessage& message, int32_t from, int32_t to, int64_t bytes) {
    common_.push(now(), MachineEvent::kWasAskedFor, new_phase_message(message, from, to, bytes));
  }

  // Events.
  void was_there(uint64_t receiver) { tell(Party::unpacked(receiver)); }
  void leave(uint32_t message) { carry(message); }
  void wake_law(About about, uint64_t which) { law_->woken(about, which); }
  using MessageRun::About;
  // Before the next event is taken from the queue; it may set others.
  void before_next() {
    if (settles_ && (common_.queue.empty() || common_.queue.next_time() > now())) law_->settle();
  }

 private:
  static constexpr uint32_t kNone = UINT32_MAX;

  struct Mail {
    int32_t from = 0, to = 0;  // as they are simulated
    int64_t tag = 0, bytes = 0;
    bool operator==(const Mail&) const = default;
  };
  struct MailHash {
    size_t operator()(const Mail& mail) const;
  };
  struct Mailbox {
    std::deque<uint32_t> sent;    // not asked for yet
    std::deque<Party> asked_for;  // not sent yet
  };
  struct Message {
    int32_t from = 0, to = 0;  // NPUs
    int64_t bytes = 0;
    Mail mail;               // between nodes
    Party sender, receiver;  // the same; receiver: once it has asked
    bool in_phase = false;
    bool arrived = false;
    PhaseMessage phase;
    uint32_t next = kNone;  // free
  };
  struct HalfRendezvous {
    Mail mail;  // from and to as NPUs
    Party party;
    bool sends = false;
    uint32_t next_free = kNone;
  };

  void send(int32_t rank, int32_t peer, int64_t tag, int64_t bytes, Party sender);
  void receive(int32_t peer, int32_t rank, int64_t tag, int64_t bytes, Party receiver);
  void met(const Party& receiver) const;  // observers hear of it
  void agreed(uint32_t half);
  uint32_t new_half(bool sends, const Mail& mail, Party party);
  uint32_t new_phase_message(const PhaseMessage& message, int32_t from, int32_t to, int64_t bytes);
  uint32_t new_message();
  void forget(uint32_t message);
  void carry(uint32_t message);  // hands it to the law
  void arrived(uint32_t message) override;
  void passes(uint32_t message, const Passage& passage) override;
  void stands_for_itself(uint32_t message) override;
  void tell(const Party& party);

  Common& common_;
  std::unique_ptr<MessageLaw> law_;
  bool settles_ = false;  // the law does
  std::vector<Message> messages_;
  uint32_t free_message_ = kNone;
  std::unordered_map<Mail, Mailbox, MailHash> mail_;
  std::vector<HalfRendezvous> halves_;
  uint32_t free_half_ = kNone;
};

}  // namespace tombolo::astra
