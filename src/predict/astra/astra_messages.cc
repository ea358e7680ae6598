#include "predict/astra/astra_messages.h"

#include "base/check.h"

namespace tombolo::astra {
namespace {

size_t mail_hash(uint64_t a, uint64_t b) {
  uint64_t h = a * 0x9e3779b97f4a7c15u ^ b;
  h ^= h >> 29;
  h *= 0xbf58476d1ce4e5b9u;
  return h ^ h >> 32;
}

}  // namespace

AstraMessages::AstraMessages(Common& common)
    : MessageRun(common.queue, static_cast<uint32_t>(MachineEvent::kLawOfMessage),
                 !common.options.observers.empty()),
      common_(common),
      law_(common.options.own_law
               ? common.options.own_law(*common.topology, *this)
               : make_message_law(common.options.law, *common.topology,
                                  hierarchical(*common.settings), common.options.classes, *this)),
      settles_(law_->settles()) {}

size_t AstraMessages::MailHash::operator()(const Mail& mail) const {
  return mail_hash(static_cast<uint64_t>(mail.from) << 32 | static_cast<uint32_t>(mail.to),
                   static_cast<uint64_t>(mail.tag) * 31 + static_cast<uint64_t>(mail.bytes));
}

uint32_t AstraMessages::new_message() {
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

void AstraMessages::forget(uint32_t message) {
  messages_[message].next = free_message_;
  free_message_ = message;
}

void AstraMessages::send(int32_t rank, int32_t peer, int64_t tag, int64_t bytes, Party sender) {
  const uint32_t id = new_message();
  Message& message = messages_[id];
  message.from = common_.npu_of(rank);
  message.to = peer;
  message.bytes = bytes;
  message.mail = {rank, common_.stand_in(peer), tag, bytes};
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

void AstraMessages::receive(int32_t peer, int32_t rank, int64_t tag, int64_t bytes,
                            Party receiver) {
  const auto place = mail_.try_emplace({common_.stand_in(peer), rank, tag, bytes}).first;
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
  common_.push(now(), MachineEvent::kWasThere, receiver.packed());
  if (box.sent.empty() && box.asked_for.empty()) mail_.erase(place);
  forget(message);
}

void AstraMessages::met(const Party& receiver) const {
  if (receiver.kind != Party::kOfRank) return;
  for (AstraObserver* observer : common_.options.observers) {
    observer->receive_met(static_cast<int32_t>(receiver.owner), receiver.node, now());
  }
}

void AstraMessages::carry(uint32_t id) {
  const Message& message = messages_[id];
  law_->send({id, message.from, message.to, message.bytes, message.phase.cause});
}

// Where phases are worked out as a whole observers hear of no message of any.
void AstraMessages::passes(uint32_t id, const Passage& passage) {
  const Message& message = messages_[id];
  if (common_.options.whole_phases && message.in_phase) return;
  const network::Routes::Place at = passage.from;
  AstraObserver::Message told;
  told.origin = message.from;
  told.from = at.npu;
  told.to = message.to;
  told.dimension = passage.dimension;
  told.links = passage.links;
  told.enters = !at.at_switch && common_.topology->coordinate(at.npu, passage.dimension) ==
                                     common_.topology->coordinate(message.from, passage.dimension);
  told.of_phase = message.in_phase;
  told.bytes = message.bytes;
  told.start = passage.start;
  told.end = passage.end;
  for (AstraObserver* observer : common_.options.observers) observer->message_passes(told);
}

void AstraMessages::stands_for_itself(uint32_t /*message*/) { common_.apart = true; }

// The sender hears of it first, then the receiver if it has asked.
void AstraMessages::arrived(uint32_t id) {
  if (messages_[id].in_phase) {
    const PhaseMessage message = messages_[id].phase;
    forget(id);
    return common_.collectives->phase_message_over(message);
  }
  messages_[id].arrived = true;
  const Message message = messages_[id];
  if (message.receiver.exists()) {
    const auto box = mail_.find(message.mail);
    if (box != mail_.end() && box->second.sent.empty() && box->second.asked_for.empty()) {
      mail_.erase(box);
    }
    forget(id);
  }
  tell(message.sender);
  if (message.receiver.exists()) tell(message.receiver);
}

void AstraMessages::tell(const Party& party) {
  switch (party.kind) {
    case Party::kOfRank:
      return common_.nodes->node_over(static_cast<int32_t>(party.owner), party.node);
    case Party::kCustom:
      return common_.collectives->custom_node_over(party.owner, party.node);
    case Party::kRendezvous:
      return agreed(party.owner);
  }
}

bool AstraMessages::asked_in_vain(int32_t peer, int32_t rank, int64_t tag, int64_t bytes) const {
  const auto box = mail_.find({common_.stand_in(peer), rank, tag, bytes});
  return box != mail_.end() && !box->second.asked_for.empty();
}

uint32_t AstraMessages::new_phase_message(const PhaseMessage& of_phase, int32_t from, int32_t to,
                                          int64_t bytes) {
  const uint32_t id = new_message();
  Message& message = messages_[id];
  message.from = from;
  message.to = to;
  message.bytes = bytes;
  message.in_phase = true;
  message.phase = of_phase;
  return id;
}

}  // namespace tombolo::astra
