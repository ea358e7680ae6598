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
  message.at = {message.from, false};
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
  if (options_.law == NetworkLaw::kAnalytical) {
    const bool all = hierarchical(*settings_);
    const SimDuration delay =
        all ? topology_->delay_through_all(message.from, message.to, message.bytes)
            : topology_->delay(message.from, message.to, message.bytes);
    const SimTime end = now() + delay;
    // Where phases are worked out as a whole observers hear of no message of any.
    const bool told = !options_.whole_phases || message.running == kNone;
    if (told && !options_.observers.empty()) {
      for (size_t d = topology_->first_difference(message.from, message.to);
           d < topology_->dimensions(); ++d) {
        const int32_t here = topology_->coordinate(message.from, d);
        const int32_t there = topology_->coordinate(message.to, d);
        if (here == there) continue;
        const bool by_switch = topology_->dimension(d).block == network::Block::kSwitch;
        tell_hop(message, message.at, d, by_switch ? 1 : topology_->hops(d, here, there), now(),
                 end);
        if (!all) break;
      }
    }
    queue_.push(end, kArrived, id);
    return;
  }
  if (options_.law == NetworkLaw::kFluid) {
    messages_[id].left = now();
    return fluid_->start(now(), id, message.from, message.to, message.bytes);
  }
  const network::Routes::Hop hop = routes_.next_hop(message.at, message.to);
  if (links_->offer(hop.link, static_cast<int32_t>(id))) take_link(id);
}

// Last bytes that leave by the next event become arrivals. Rates are asked for only when an instant
// is over, so that all that starts and ends at it is solved at once.
bool AstraMachine::let_flow() {
  if (fluid_ == nullptr) return !queue_.empty();
  SimTime instant = now();
  while (queue_.empty() || queue_.next_time() > instant) {
    const std::optional<SimTime> leaves = fluid_->next();
    if (!leaves || (!queue_.empty() && queue_.next_time() < *leaves)) break;
    for (const FluidLinks::Left& left : fluid_->finish(*leaves)) {
      queue_.push(left.arrives, kArrived, left.message);
    }
    instant = *leaves;
  }
  return !queue_.empty();
}

void AstraMachine::take_link(uint32_t id) {
  const Message& message = messages_[id];
  const network::Routes::Hop hop = routes_.next_hop(message.at, message.to);
  const SimTime end = now() + topology_->delay(hop.dimension, 1, message.bytes);
  if (!options_.observers.empty()) {
    tell_hop(message, message.at, hop.dimension, message.at.at_switch ? 0 : 1, now(), end);
  }
  queue_.push(end, kArrived, id);
  queue_.push(now() + topology_->serialization(hop.dimension, message.bytes), kLinkFree,
              static_cast<uint64_t>(hop.link));
}

void AstraMachine::tell_hop(const Message& message, network::Routes::Place at, size_t dimension,
                            int32_t links, SimTime start, SimTime end) const {
  AstraObserver::Message told;
  told.origin = message.from;
  told.from = at.npu;
  told.to = message.to;
  told.dimension = dimension;
  told.links = links;
  told.enters = !at.at_switch && topology_->coordinate(at.npu, dimension) ==
                                     topology_->coordinate(message.from, dimension);
  told.of_phase = message.running != kNone;
  told.bytes = message.bytes;
  told.start = start;
  told.end = end;
  for (AstraObserver* observer : options_.observers) observer->message_passes(told);
}

// Under `fluid` a message is on all links of its way at once.
void AstraMachine::tell_way(const Message& message) const {
  network::Routes::Place at{message.from, false};
  while (at != network::Routes::Place{message.to, false}) {
    const network::Routes::Hop hop = routes_.next_hop(at, message.to);
    tell_hop(message, at, hop.dimension, at.at_switch ? 0 : 1, message.left, now());
    at = hop.end;
  }
}

void AstraMachine::link_free(uint64_t link) {
  const int32_t next = links_->release(static_cast<int64_t>(link));
  if (next >= 0) take_link(static_cast<uint32_t>(next));
}

void AstraMachine::arrived(uint32_t id) {
  Message& message = messages_[id];
  if (options_.law == NetworkLaw::kCongestion) {
    message.at = routes_.next_hop(message.at, message.to).end;
    if (message.at != network::Routes::Place{message.to, false}) return carry(id);
  }
  if (fluid_ != nullptr && !options_.observers.empty()) tell_way(message);
  delivered(id);
}

// The sender hears of it first, then the receiver if it has asked.
void AstraMachine::delivered(uint32_t id) {
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
