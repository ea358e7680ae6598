#include "perform/link/link.h"

#include <algorithm>

#include "base/check.h"

namespace tombolo::link {
namespace {

constexpr uint64_t kReceiptEvery = 64;  // messages

}  // namespace

Link::Link(Options options)
    : options_(std::move(options)),
      outbox_(static_cast<uint32_t>(options_.self.rank), options_.self.epoch),
      assembler_({.sender = static_cast<uint32_t>(options_.peer),
                  .epoch = options_.self.epoch,
                  .message_max = options_.message_max,
                  .open_bytes_max = std::max(uint64_t{4} << 30, options_.message_max)}),
      credit_said_(options_.window) {}

bool Link::owes_receipt(uint32_t connection, SimTime now) const {
  const auto ledger = ledgers_.find(connection);
  if (assembler_.complete() >= receipted_ + kReceiptEvery || owes_credit()) return true;
  if (ledger == ledgers_.end()) return false;
  // The other side waits for it before it says goodbye: now, when both are about to.
  return ledger->second.owes_receipt(now) || (closing_ && !ledger->second.owes_nothing());
}

std::vector<std::byte> Link::say_receipt(Ledger* ledger, SimTime now) {
  receipted_ = assembler_.complete();
  credit_said_ = credit();
  credit_lost_ = false;
  if (ledger) ledger->said(now);
  return receipt_frame(options_.self, receipted_, ledger ? ledger->report() : 0, credit_said_);
}

uint64_t Link::credit() const {
  const uint64_t from = waiting_ > 0 ? assembler_.came_bytes() : inbox_.taken_bytes();
  return std::max(credit_said_, from + std::min(options_.window, kUnlimited - from));
}

bool Link::owes_credit() const {
  return credit_lost_ || credit() - credit_said_ > options_.window / 4;
}

bool Link::owes(uint32_t connection, SimTime now) const {
  const auto ledger = ledgers_.find(connection);
  return owes_receipt(connection, now) ||
         (ledger != ledgers_.end() && ledger->second.owes_ping(now));
}

Link::Pull Link::pull(uint32_t connection, SimTime now, uint64_t tail) {
  CHECK(up() && !said_goodbye(connection), "connection {} has nothing to carry", connection);
  Ledger* const ledger = this->ledger(connection);
  CHECK(ledger || !resumable_, "connection {} was lost", connection);
  if (owes_receipt(connection, now)) return say_receipt(ledger, now);
  if (const auto departure = outbox_.next_departure(now); departure && *departure <= now) {
    Outgoing segment = outbox_.take(now, tail);
    if (ledger) ledger->said(now);
    if (ledger) ledger->give(segment);
    return segment;
  } else if (departure && !(ledger && ledger->owes_ping(now))) {
    return *departure;
  }
  if (closing_ && delivered()) {
    said_.insert(connection);
    return goodbye_frame(options_.self, outbox_.messages(), assembler_.complete());
  }
  if (!ledger || !ledger->owes_ping(now)) return std::monostate();
  ledger->said(now);
  return ping_frame(options_.self);
}

std::vector<std::byte> Link::pull_rider(uint32_t connection, SimTime now) {
  Ledger* const ledger = this->ledger(connection);
  if (!ledger || ledger->owes_nothing()) return {};
  return say_receipt(ledger, now);
}

// --- Of a resumable link ------------------------------------------------------------------------

void Link::make_resumable(SimTime now) {
  CHECK(up(), "a link that is not up is not resumed");
  resumable_ = true;
  assembler_.allow_repeats();
  for (uint32_t i = 0; i < gathering_.connections(); ++i) {
    resume(i, now);
    for (uint64_t n = early_[i]; n > 0; --n) ledger(i)->take(0, now);
  }
}

void Link::lose(uint32_t connection, SimTime now) {
  auto gone = ledgers_.extract(connection);
  if (gone.empty()) return;
  for (Outgoing& segment : gone.mapped().take_back()) outbox_.put_back(std::move(segment), now);
  said_.erase(connection);
  heard_.erase(connection);
  credit_lost_ = credit_lost_ || credit_said_ > options_.window;
}

void Link::resume(uint32_t connection, SimTime now) {
  CHECK(resumable_ && ledgers_.try_emplace(connection, options_.ledger, now).second,
        "connection {} is here already", connection);
}

Ledger* Link::ledger(uint32_t connection) {
  const auto at = ledgers_.find(connection);
  return at == ledgers_.end() ? nullptr : &at->second;
}

uint64_t Link::kept_bytes() const {
  uint64_t sum = 0;
  for (const auto& [connection, ledger] : ledgers_) sum += ledger.kept_bytes();
  return sum;
}

bool Link::delivered() const {
  return outbox_.empty() && std::none_of(ledgers_.begin(), ledgers_.end(),
                                         [](const auto& each) { return each.second.keeps(); });
}

bool Link::finished() const {
  if (!resumable_) return up() && heard_.size() == gathering_.connections();
  return announced_ && std::all_of(ledgers_.begin(), ledgers_.end(),
                                   [&](const auto& each) { return heard_.contains(each.first); });
}

// --- What comes ---------------------------------------------------------------------------------

// Every frame names its sender and epoch, so that no frame of a process that was given up for lost
// is taken for its successor's.
Status Link::check_sender(const FrameHeader& header) const {
  if (header.sender != static_cast<uint32_t>(options_.peer))
    return failed(fmt::format("a frame of rank {} on the connection of rank {}", header.sender,
                              options_.peer));
  if (header.epoch != options_.self.epoch)
    return failed(fmt::format("a frame of membership epoch {} in epoch {}", header.epoch,
                              options_.self.epoch));
  return {};
}

Status Link::accept(uint32_t connection, const Frame& frame, SimTime now) {
  if (heard_goodbye(connection)) return failed("it sent more after its goodbye");
  TRY(check_sender(frame.header));
  switch (frame.header.kind) {
    case FrameKind::kData:
      return on_data(connection, frame, now);
    case FrameKind::kReceipt:
      return on_receipt(connection, frame.header);
    case FrameKind::kGoodbye:
      return on_goodbye(connection, frame.header);
    case FrameKind::kPing:
      return {};  // that it came is all it says
    case FrameKind::kHello:
    case FrameKind::kFailure:
      break;
  }
  return failed("it said hello twice");
}

Status Link::on_data(uint32_t connection, const Frame& frame, SimTime now) {
  for (Message& message : TRY(assembler_.add(frame, now))) inbox_.add(std::move(message), now);
  TRY(check_credit());
  if (Ledger* const ledger = this->ledger(connection)) {
    ledger->take(frame.payload.size(), now);
  } else if (!up()) {
    ++early_[connection];
  }
  return {};
}

Status Link::on_receipt(uint32_t connection, const FrameHeader& header) {
  TRY(outbox_.receipt(header.message));
  outbox_.allow(header.tag);
  if (Ledger* const ledger = this->ledger(connection)) return ledger->receipt(header.iteration);
  return {};
}

Status Link::check_credit() const {
  const uint64_t came = assembler_.came_bytes();
  if (came > credit_said_)
    return failed(fmt::format("it sent {} bytes where {} were allowed", came, credit_said_));
  const uint64_t here = came - inbox_.taken_bytes();
  if (here > options_.message_max && here - options_.message_max > options_.window)
    return failed(
        fmt::format("{} bytes of it lie here, and what is awaited is not among them", here));
  return {};
}

// A connection keeps its order, so with the last goodbye all that was sent before is here. Over a
// resumable link all of it was confirmed before the first.
Status Link::on_goodbye(uint32_t connection, const FrameHeader& header) {
  const uint64_t messages = header.message;
  TRY(outbox_.receipt(header.iteration));
  if (announced_ && messages != *announced_)
    return failed(fmt::format("its goodbyes count {} and {} messages", *announced_, messages));
  announced_ = messages;
  heard_.insert(connection);
  if ((finished() || resumable_) && assembler_.complete() != messages)
    return failed(fmt::format("its goodbye counts {} messages, and {} came whole", messages,
                              assembler_.complete()));
  return {};
}

}  // namespace tombolo::link
