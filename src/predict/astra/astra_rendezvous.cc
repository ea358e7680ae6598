// Messages that leave when they are asked for.
//
// ASTRA-sim's rendezvous protocol: who wants to receive sends a request of 8192 bytes, and receives
// when it has arrived; who wants to send waits for the request. It goes through the network as all
// messages do, with a tag of its own.

#include "predict/astra/astra_messages.h"

namespace tombolo::astra {
namespace {

constexpr int64_t kTagOfRequests = 500'000'000;  // more than that of the message

}  // namespace

void AstraMessages::offer(int32_t rank, int32_t peer, int64_t tag, int64_t bytes, Party sender) {
  if (!common_.options.rendezvous) return send(rank, peer, tag, bytes, sender);
  const uint32_t half = new_half(true, {rank, peer, tag, bytes}, sender);
  receive(peer, rank, tag + kTagOfRequests, kRequest, {half, 0, Party::kRendezvous});
}

void AstraMessages::ask(int32_t peer, int32_t rank, int64_t tag, int64_t bytes, Party receiver) {
  if (!common_.options.rendezvous) return receive(peer, rank, tag, bytes, receiver);
  const uint32_t half = new_half(false, {peer, rank, tag, bytes}, receiver);
  send(rank, peer, tag + kTagOfRequests, kRequest, {half, 0, Party::kRendezvous});
}

// The request is there: both ends do what they wanted.
void AstraMessages::agreed(uint32_t id) {
  const HalfRendezvous half = halves_[id];
  halves_[id].next_free = free_half_;
  free_half_ = id;
  if (half.sends) {
    send(half.mail.from, half.mail.to, half.mail.tag, half.mail.bytes, half.party);
  } else {
    receive(half.mail.from, half.mail.to, half.mail.tag, half.mail.bytes, half.party);
  }
}

uint32_t AstraMessages::new_half(bool sends, const Mail& mail, Party party) {
  uint32_t id = free_half_;
  if (id == kNone) {
    id = static_cast<uint32_t>(halves_.size());
    halves_.emplace_back();
  } else {
    free_half_ = halves_[id].next_free;
  }
  halves_[id] = {mail, party, sends, kNone};
  return id;
}

}  // namespace tombolo::astra
