// What the two sides of a probe say to each other: any bytes give a question or an answer within
// its bounds, or say why not; what was accepted is encoded and decoded to the same.
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/check.h"
#include "perform/link/handshake.h"
#include "perform/transport/probe_message.h"

namespace {

using namespace tombolo;
using namespace tombolo::transport;

template <typename Message>
const Message* check_round_trip(const Result<Message>& message,
                                Result<Message> (*decode)(const link::Payload&)) {
  if (!message) {
    CHECK(!message.error().message.empty(), "refused without a word");
    return nullptr;
  }
  const auto again = decode(encode(*message));
  CHECK(again && *again == *message, "changed on the way");
  return &*message;
}

bool within_a_cell(double seconds) { return seconds >= 0 && seconds <= kProbeCellMax.value; }

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  link::Payload payload(size);
  if (size > 0) std::memcpy(payload.data(), data, size);
  const auto question = decode_probe_question(payload);
  if (const ProbeQuestion* q = check_round_trip(question, decode_probe_question)) {
    CHECK(q->cell >= -1 && q->cell < kProbeCellsMax, "cell {}", q->cell);
    CHECK(q->connections <= link::kConnectionsMax, "{} connections", q->connections);
    CHECK(within_a_cell(q->warmup_s) && within_a_cell(q->counted_s), "longer than a cell");
  }
  const auto answer = decode_probe_answer(payload);
  if (const ProbeAnswer* a = check_round_trip(answer, decode_probe_answer)) {
    CHECK(a->bytes_per_second >= 0 && a->round_trip_s >= 0, "less than nothing");
  }
  return 0;
}
