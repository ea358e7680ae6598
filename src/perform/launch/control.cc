#include "perform/launch/control.h"

#include <cstring>

#include "base/json.h"

namespace tombolo::link {

template <class Archive>
void describe(Archive& a, ConnectionStatistics& c) {
  a.required("connection", c.connection);
  a.required("pulls", c.pulls);
  a.optional("congestion_control", c.congestion_control);
  a.required("acknowledged_bytes", c.acknowledged_bytes);
  a.required("retransmits", c.retransmits);
  a.required("goodput", c.goodput.value);
  a.required("round_trip", c.round_trip.value);
}

template <class Archive>
void describe(Archive& a, LinkStatistics& link) {
  a.required("peer", link.peer);
  a.optional("through", link.through);
  a.required("tuned", link.tuned);
  a.required("exploring", link.exploring);
  a.optional("reason", link.reason);
  a.optional("connections", link.connections);
}

}  // namespace tombolo::link

namespace tombolo::launch {

template <class Archive>
void describe(Archive& a, launch::ClassQueue& queue) {
  a.required("urgency", queue.urgency);
  a.required("bytes", queue.bytes);
}

template <class Archive>
void describe(Archive& a, launch::LinkReport& report) {
  a.required("link", report.link);
  a.optional("queue", report.queue);
}

template <class Archive>
void describe(Archive& a, LinksReport& m) {
  a.optional("links", m.links);
}

template <class Archive>
void describe(Archive& a, Hello& m) {
  a.required("pid", m.pid);
  a.required("address", m.address);
  a.optional("reach", m.reach);
  a.check(m.reach >= 0 && m.reach <= 2, "reach", "must lie between 0 and 2");
}

template <class Archive>
void describe(Archive& a, Start& m) {
  a.required("plan", m.plan);
  a.required("addresses", m.addresses);
  a.optional("reach", m.reach);
  a.optional("splice_port", m.splice_port);
  a.check(m.splice_port >= 0 && m.splice_port <= 65535, "splice_port", "is no port");
  a.required("output", m.output);
  a.required("first_iteration", m.first_iteration);
  a.optional("resume", m.resume);
  a.optional("keep", m.keep);
}

template <class Archive>
void describe(Archive&, Ready&) {}

template <class Archive>
void describe(Archive& a, Go& m) {
  a.required("origin_ns", m.origin_ns);
}

template <class Archive>
void describe(Archive& a, ProgressReport& m) {
  a.required("iteration", m.report.iteration);
  a.required("start_ns", m.report.start.ns);
  a.required("end_ns", m.report.end.ns);
  a.optional("loss", m.report.loss);
  a.optional("weights_digest", m.report.weights_digest);
  a.optional("late_s", m.report.late_s);
}

template <class Archive>
void describe(Archive& a, EvaluationReport& m) {
  a.required("step", m.evaluation.step);
  a.required("loss", m.evaluation.loss);
  a.optional("batches", m.evaluation.batches);
}

template <class Archive>
void describe(Archive& a, ShardReport& m) {
  a.required("step", m.step);
  a.required("shard", m.shard);
}

template <class Archive>
void describe(Archive&, Finished&) {}

template <class Archive>
void describe(Archive& a, Failure& m) {
  auto code = static_cast<int32_t>(m.error.code);
  a.required("code", code);
  a.check(code >= 1 && code <= 4, "code", "must lie between 1 and 4");
  if (a.ok()) m.error.code = static_cast<ErrorCode>(code);
  a.required("message", m.error.message);
  a.optional("context", m.error.context);
  a.optional("hint", m.error.hint);
}

template <class Archive>
void describe(Archive&, Over&) {}

template <class Archive>
void describe(Archive& a, Stop& m) {
  a.required("reason", m.reason);
  a.optional("again", m.again);
}

// Epochs count from 1, one per loss: they fit.
template <class Archive>
void describe_epoch(Archive& a, uint64_t& epoch) {
  auto number = static_cast<int64_t>(epoch);
  a.required("epoch", number);
  a.check(number >= 0, "epoch", "must not be negative");
  epoch = static_cast<uint64_t>(number);
}

template <class Archive>
void describe(Archive& a, BeatReport& m) {
  describe_epoch(a, m.beat.epoch);
  a.required("sent_ns", m.beat.sent.ns);
}

template <class Archive>
void describe(Archive& a, LeaseGrant& m) {
  describe_epoch(a, m.grant.epoch);
  a.required("sent_ns", m.grant.sent.ns);
  a.required("length_ns", m.grant.length.ns);
  a.optional("working", m.grant.working);
}

namespace {

constexpr const char* kName = "control message";

template <size_t Index = 0>
Result<ControlMessage> decode_kind(const std::string& kind, const Value& value) {
  if constexpr (Index == std::variant_size_v<ControlMessage>) {
    return failed(fmt::format("{}: unknown kind \"{}\"", kName, kind));
  } else {
    using Message = std::variant_alternative_t<Index, ControlMessage>;
    if (kind != Message::kKind) return decode_kind<Index + 1>(kind, value);
    return ControlMessage(TRY(read_fields<Message>(value, kName, kind)));
  }
}

}  // namespace

link::Payload encode(const ControlMessage& message) {
  const std::string text = std::visit(
      [](const auto& m) {
        return to_json(Value(Value::Table{{m.kKind, write_fields(m)}}), -1);
      },
      message);
  link::Payload out(text.size());
  std::memcpy(out.data(), text.data(), text.size());
  return out;
}

Result<ControlMessage> decode(const link::Payload& payload) {
  const std::string_view text(reinterpret_cast<const char*>(payload.data()), payload.size());
  const Value value = TRY(parse_json(text, kName));
  const Value::Table* table = value.get<Value::Table>();
  if (!table || table->size() != 1) return failed(fmt::format("{}: wanted one kind", kName));
  return decode_kind(table->front().first, table->front().second);
}

}  // namespace tombolo::launch
