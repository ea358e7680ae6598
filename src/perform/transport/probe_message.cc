#include "perform/transport/probe_message.h"

#include <string>
#include <string_view>

#include "base/fields.h"
#include "perform/link/handshake.h"
#include "perform/link/json_payload.h"

namespace tombolo::transport {

template <class Archive>
void describe(Archive& a, ProbeQuestion& q) {
  a.required("cell", q.cell);
  a.required("connections", q.connections);
  a.optional("congestion_control", q.congestion_control);
  a.required("forth", q.forth);
  a.required("warmup_s", q.warmup_s);
  a.required("counted_s", q.counted_s);
  a.check(q.cell >= -1 && q.cell < kProbeCellsMax, "cell", "is out of bounds");
  a.check(q.connections <= link::kConnectionsMax, "connections", "are too many");
  a.check(q.congestion_control.size() < 16, "congestion_control", "is too long");
  a.check(q.warmup_s >= 0 && q.warmup_s <= kProbeCellMax.value, "warmup_s", "is out of bounds");
  a.check(q.counted_s >= 0 && q.counted_s <= kProbeCellMax.value, "counted_s", "is out of bounds");
}

template <class Archive>
void describe(Archive& a, ProbeAnswer& answer) {
  a.required("bytes_per_second", answer.bytes_per_second);
  a.required("round_trip_s", answer.round_trip_s);
  a.optional("congestion_controls", answer.congestion_controls);
  a.check(answer.bytes_per_second >= 0, "bytes_per_second", "is negative");
  a.check(answer.round_trip_s >= 0, "round_trip_s", "is negative");
  a.check(answer.congestion_controls.size() <= 64, "congestion_controls", "are too many");
}

namespace {

constexpr size_t kProbeMessageMax = 16 * 1024;

template <typename Message>
Result<Message> from_payload(const link::Payload& payload) {
  constexpr std::string_view kWhat = "probe message";
  return read_fields<Message>(TRY(link::read_json_payload(payload, kWhat, kProbeMessageMax)),
                              std::string(kWhat));
}

}  // namespace

link::Payload encode(const ProbeQuestion& question) {
  return link::json_payload(write_fields(question));
}

link::Payload encode(const ProbeAnswer& answer) { return link::json_payload(write_fields(answer)); }

Result<ProbeQuestion> decode_probe_question(const link::Payload& payload) {
  return from_payload<ProbeQuestion>(payload);
}

Result<ProbeAnswer> decode_probe_answer(const link::Payload& payload) {
  return from_payload<ProbeAnswer>(payload);
}

}  // namespace tombolo::transport
