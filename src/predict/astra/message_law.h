// A law of messages: when a message from one NPU to another has arrived.
//
// The seam between those who send (ranks and collectives: AstraMessages) and what carries it;
// ASTRA-sim calls it NetworkAPI. A law hears of every message when it is sent, sets events of its
// own, and says when the message is there:
//
//   class Postman : public MessageLaw {
//    public:
//     using MessageLaw::MessageLaw;
//     void send(const Message& message) override {
//       run_.wake(run_.now() + SimDuration{1000}, MessageRun::About::kMessage, message.id);
//     }
//   };
//
// This is a law: what is woken about a message has arrived, unless the law says otherwise (woken).
// MachineOptions::own_law takes it; `analytical`, `congestion` and `fluid` are message_laws.h.
//
// Determinism: events of one instant happen in the order in which they were set. A law that draws
// nothing at random and iterates in a fixed order gives the same run everywhere.
// Cost: two virtual calls per message and one per event, in addition to the event's own 65 ns.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "base/time.h"
#include "predict/engine/event_queue.h"
#include "predict/network/route.h"
#include "predict/network/topology.h"

namespace tombolo::astra {

// What a law may ask of the run that it is part of.
class MessageRun {
 public:
  // Two kinds of events, for laws that have two: `which` is the law's own number.
  enum class About : uint32_t { kMessage, kLink };

  SimTime now() const { return queue_->now(); }
  // Not before now(). MessageLaw::woken is called then.
  void wake(SimTime at, About about, uint64_t which) {
    queue_->push(at, first_kind_ + static_cast<uint32_t>(about), which);
  }
  // When the next event happens, the law's or any other; none: nothing is under way.
  std::optional<SimTime> next() const {
    return queue_->empty() ? std::nullopt : std::optional(queue_->next_time());
  }

  // The message is there now. The receiver continues, and may send others before this returns; its
  // number may then stand for a new one.
  virtual void arrived(uint32_t message) = 0;

  // Part of a message's way, for observers; report it only if watched().
  struct Passage {
    network::Routes::Place from;
    size_t dimension = 0;
    int32_t links = 1;  // of NPUs that it takes; 0: it leaves a switch
    SimTime start, end;
  };
  bool watched() const { return watched_; }
  virtual void passes(uint32_t message, const Passage& passage) = 0;

  // One rank of each class is simulated, and this message does not stand for those of the others in
  // its class, so the run stops and its result is discarded. Only for laws that are given classes
  // (message_laws.h).
  virtual void stands_for_itself(uint32_t message) = 0;

 protected:
  // Events of a law are of kinds first_kind and the one above.
  MessageRun(engine::EventQueue& queue, uint32_t first_kind, bool watched)
      : queue_(&queue), first_kind_(first_kind), watched_(watched) {}
  ~MessageRun() = default;

 private:
  engine::EventQueue* queue_;
  uint32_t first_kind_;
  bool watched_;
};

// Why a message is sent.
struct MessageCause {
  int32_t group = -2;  // whose collective sends it, -1: that of all NPUs; -2: a node does
  bool turns = false;  // with classes: all NPUs of a ring send so far ahead at once
};

class MessageLaw {
 public:
  struct Message {
    uint32_t id = 0;           // its own until it has arrived; numbers are small, and used again
    int32_t from = 0, to = 0;  // NPUs, not the same
    int64_t bytes = 0;
    MessageCause cause = {};
  };

  explicit MessageLaw(MessageRun& run) : run_(run) {}  // which outlives the law
  virtual ~MessageLaw() = default;

  virtual void send(const Message& message) = 0;  // now
  // An event that the law has set happens.
  virtual void woken(MessageRun::About /*about*/, uint64_t which) {
    run_.arrived(static_cast<uint32_t>(which));
  }

  // Whether the law wants settle(): before time moves on, when all events of an instant are dealt
  // with. A law whose messages share what they cross solves once here, and sets the events that it
  // has before run_.next().
  virtual bool settles() const { return false; }
  virtual void settle() {}

 protected:
  MessageRun& run_;
};

// A law of one's own. Topology and run outlive it.
using MessageLawMaker =
    std::function<std::unique_ptr<MessageLaw>(const network::Topology&, MessageRun&)>;

}  // namespace tombolo::astra
