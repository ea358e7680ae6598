// How messages travel, and how sends meet receives.

#include "base/check.h"
#include "predict/astra/astra_machine.h"

namespace tombolo::astra {
namespace {

size_t mail_hash(uint64_t a, uint64_t b) {
  uint64_t h = a * 0x9e3779b97f4a7c15u ^ b;
  h ^= h >> 29;
  h *= 0xbf58476d1ce4e5b9u;
  return h ^ h >> 32;
}

}  // namespace

size_t AstraMachine::MailHash::operator()(const Mail& mail) const {
  return mail_hash(static_cast<uint64_t>(mail.from) << 32 | static_cast<uint32_t>(mail.to),
                   static_cast<uint64_t>(mail.tag) * 31 + static_cast<uint64_t>(mail.bytes));
}

uint32_t AstraMachine::new_message() {
  uint32_t message = free_message_;
  if (message == kNone) {
    message = static_cast<uint32_t>(messages_.size());
    messages_.emplace_back();
  } else {
    free_message_ = messages_[message].next;
    messages_[message] = {};
  }
  return message;
}

void AstraMachine::forget(uint32_t message) {
  messages_[message].next = free_message_;
  free_message_ = message;
}

void AstraMachine::send(int32_t rank, int32_t peer, int64_t tag, int64_t bytes, Party sender) {
  const uint32_t id = new_message();
  Message& message = messages_[id];
  message.from = npu_of(rank);
  message.to = peer;
  message.bytes = bytes;
  message.mail = {rank, stand_in(peer), tag, bytes};
  message.sender = sender;
  Mailbox& box = mail_[message.mail];
  if (box.asked_for.empty()) {
    box.sent.push_back(id);
  } else {
    message.receiver = box.asked_for.front();
    box.asked_for.pop_front();
    met(message.receiver);
  }
  carry(id);
}

void AstraMachine::receive(int32_t peer, int32_t rank, int64_t tag, int64_t bytes, Party receiver) {
  const auto place = mail_.try_emplace({stand_in(peer), rank, tag, bytes}).first;
  Mailbox& box = place->second;
  if (box.sent.empty()) {
    box.asked_for.push_back(receiver);
    return;
  }
  const uint32_t message = box.sent.front();
  box.sent.pop_front();
  messages_[message].receiver = receiver;
  met(receiver);
  if (!messages_[message].arrived) return;
  queue_.push(now(), kWasThere, receiver.packed());
  if (box.sent.empty() && box.asked_for.empty()) mail_.erase(place);
  forget(message);
}

void AstraMachine::met(const Party& receiver) const {
  if (receiver.kind != Party::kOfRank) return;
  for (AstraObserver* observer : options_.observers) {
    observer->receive_met(static_cast<int32_t>(receiver.owner), receiver.node, now());
  }
}

void AstraMachine::carry(uint32_t id) {
  const Message& message = messages_[id];
  law_->send({id, message.from, message.to, message.bytes});
}

bool AstraMachine::another_event() {
  if (settles_ && (queue_.empty() || queue_.next_time() > now())) law_->settle();
  return !queue_.empty();
}

// Where phases are worked out as a whole observers hear of no message of any.
void AstraMachine::passes(uint32_t id, const Passage& passage) {
  const Message& message = messages_[id];
  if (options_.whole_phases && message.running != kNone) return;
  const network::Routes::Place at = passage.from;
  AstraObserver::Message told;
  told.origin = message.from;
  told.from = at.npu;
  told.to = message.to;
  told.dimension = passage.dimension;
  told.links = passage.links;
  told.enters = !at.at_switch && topology_->coordinate(at.npu, passage.dimension) ==
                                     topology_->coordinate(message.from, passage.dimension);
  told.of_phase = message.running != kNone;
  told.bytes = message.bytes;
  told.start = passage.start;
  told.end = passage.end;
  for (AstraObserver* observer : options_.observers) observer->message_passes(told);
}

// The sender hears of it first, then the receiver if it has asked.
void AstraMachine::arrived(uint32_t id) {
  if (messages_[id].running != kNone) {
    const Message message = messages_[id];
    forget(id);
    Player player{*this, message.running};
    --running_[message.running].in_flight;
    if (message.asks) return asked_in_phase(message);
    running_[message.running].state->arrived(message.member, message.source, player);
    return forget_if_over(message.running);
  }
  messages_[id].arrived = true;
  const Message message = messages_[id];
  if (message.receiver.owner != kNone) {
    const auto box = mail_.find(message.mail);
    if (box != mail_.end() && box->second.sent.empty() && box->second.asked_for.empty()) {
      mail_.erase(box);
    }
    forget(id);
  }
  tell(message.sender);
  if (message.receiver.owner != kNone) tell(message.receiver);
}

void AstraMachine::tell(const Party& party) {
  if (party.kind == Party::kCustom) return custom_done(party.owner, party.node);
  if (party.kind == Party::kRendezvous) return agreed(party.owner);
  done(static_cast<int32_t>(party.owner), party.node);
}

}  // namespace tombolo::astra
