#include "perform/link/ledger.h"

#include <algorithm>

namespace tombolo::link {

void Ledger::give(const Outgoing& segment) {
  kept_.push_back(segment);
  kept_bytes_ += segment.payload.size();
  ++given_;
}

Status Ledger::receipt(uint64_t segments) {
  const uint64_t confirmed = given_ - kept_.size();
  if (segments > given_ || segments < confirmed)
    return failed(fmt::format("a receipt for segment {} where {} to {} were to be confirmed",
                              segments, confirmed, given_));
  for (uint64_t i = confirmed; i < segments; ++i) {
    kept_bytes_ -= kept_.front().payload.size();
    kept_.pop_front();
  }
  return {};
}

void Ledger::take(uint64_t bytes, SimTime now) {
  ++came_;
  came_bytes_ += bytes;
  if (!unconfirmed_since_) unconfirmed_since_ = now;
}

bool Ledger::owes_receipt(SimTime now) const {
  return unconfirmed_since_ && (came_bytes_ >= options_.receipt_bytes ||
                                now - *unconfirmed_since_ >= options_.receipt_after);
}

uint64_t Ledger::report() {
  came_bytes_ = 0;
  unconfirmed_since_.reset();
  return came_;
}

SimTime Ledger::wake() const {
  SimTime at = std::min(said_at_ + options_.ping_every, heard_at_ + options_.silence_max);
  if (unconfirmed_since_) at = std::min(at, *unconfirmed_since_ + options_.receipt_after);
  return at;
}

}  // namespace tombolo::link
