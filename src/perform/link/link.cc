#include "perform/link/link.h"

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
                  .message_max = options_.message_max}) {}

bool Link::owes_receipt() const { return assembler_.complete() >= receipted_ + kReceiptEvery; }

Link::Pull Link::pull(uint32_t connection, SimTime now, uint64_t tail) {
  CHECK(up() && !said_goodbye(connection), "connection {} has nothing to carry", connection);
  if (owes_receipt()) {
    receipted_ = assembler_.complete();
    return receipt_frame(options_.self, receipted_);
  }
  if (const auto departure = outbox_.next_departure(now)) {
    if (*departure > now) return *departure;
    return outbox_.take(now, tail);
  }
  if (!closing_) return std::monostate();
  said_.insert(connection);
  return goodbye_frame(options_.self, outbox_.messages());
}

Status Link::accept(uint32_t connection, const Frame& frame, SimTime now) {
  if (heard_goodbye(connection)) return failed("it went on after its goodbye");
  switch (frame.header.kind) {
    case FrameKind::kData:
      for (Message& message : TRY(assembler_.add(frame))) inbox_.add(std::move(message), now);
      return {};
    case FrameKind::kReceipt:
      return outbox_.receipt(frame.header.message);
    case FrameKind::kGoodbye:
      return on_goodbye(connection, frame.header.message);
    case FrameKind::kHello:
    case FrameKind::kFailure:
      break;
  }
  return failed("it said hello twice");
}

// A connection keeps its order, so with the last goodbye all that was sent before is here.
Status Link::on_goodbye(uint32_t connection, uint64_t messages) {
  if (!heard_.empty() && messages != announced_)
    return failed(fmt::format("its goodbyes count {} and {} messages", announced_, messages));
  announced_ = messages;
  heard_.insert(connection);
  if (finished() && assembler_.complete() != messages)
    return failed(fmt::format("its goodbye counts {} messages, and {} came whole", messages,
                              assembler_.complete()));
  return {};
}

}  // namespace tombolo::link
