#include "perform/join/control_message.h"

#include <algorithm>

#include "perform/link/json_payload.h"

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

namespace tombolo::trust {

template <class Archive>
void describe(Archive& a, CertificateFacts& facts) {
  int64_t begins = facts.begins.time_since_epoch().count();
  int64_t expires = facts.expires.time_since_epoch().count();
  a.required("name", facts.name);
  a.check(facts.name.size() <= 256, "name", "is too long");
  a.required("begins", begins);
  a.required("expires", expires);
  const auto in_range = [](int64_t second) { return second >= 0 && second < int64_t{1} << 40; };
  a.check(in_range(begins) && in_range(expires), "expires", "must be a time");
  if (!a.ok()) return;
  facts.begins = WallTime{std::chrono::seconds{begins}};
  facts.expires = WallTime{std::chrono::seconds{expires}};
}

}  // namespace tombolo::trust

namespace tombolo::state {

template <class Archive>
void describe(Archive& a, StepFile& file) {
  a.required("step", file.step);
  a.required("file", file.file);
  a.required("bytes", file.bytes);
  a.check(file.bytes >= 0, "bytes", "must not be negative");
}

template <class Archive>
void describe(Archive& a, Survey& m) {
  a.required("output", m.output);
  a.optional("checkpoints", m.checkpoints);
  a.required("fresh", m.fresh);
  a.optional("run", m.run);
}

template <class Archive>
void describe(Archive& a, Inventory& m) {
  a.optional("files", m.files);
  a.optional("kept", m.kept);
}

template <class Archive>
void describe(Archive& a, ShardReport& m) {
  a.required("step", m.step);
  a.required("shard", m.shard);
}

template <class Archive>
void describe(Archive& a, Commit& m) {
  a.required("manifest", m.manifest);
}

template <class Archive>
void describe(Archive& a, Committed& m) {
  a.required("step", m.step);
}

template <class Archive>
void describe(Archive& a, Drop& m) {
  a.required("step", m.step);
}

template <class Archive>
void describe(Archive& a, Retire& m) {
  a.required("step", m.step);
  a.required("keep", m.keep);
  a.check(m.keep >= 1, "keep", "must be at least 1");
}

template <class Archive>
void describe(Archive& a, FileRequest& m) {
  a.required("id", m.id);
  a.required("what", m.what);
  a.optional("epoch", m.epoch);
  a.optional("step", m.step);
  a.required("file", m.file);
  a.required("offset", m.offset);
  a.required("bytes", m.bytes);
  a.check(m.epoch >= 0, "epoch", "must not be negative");
  a.check(m.step >= 0, "step", "must not be negative");
  a.check(is_plain_file(m.file), "file", "must be a file's name, without a folder");
  a.check(m.offset >= 0, "offset", "must not be negative");
  a.check(m.bytes >= 0 && m.bytes <= kPieceMax, "bytes",
          fmt::format("must lie between 0 and {}", kPieceMax));
}

// Its bytes stand behind the text.
template <class Archive>
void describe(Archive& a, FilePiece& m) {
  a.required("id", m.id);
  a.optional("error", m.error);
}

template <class Archive>
void describe(Archive& a, Finished& m) {
  a.required("trace_bytes", m.trace_bytes);
  a.optional("trace_digest", m.trace_digest);
  a.check(m.trace_bytes >= 0, "trace_bytes", "must not be negative");
}

template <class Archive>
void describe_error(Archive& a, Error& error) {
  auto code = static_cast<int32_t>(error.code);
  a.required("code", code);
  a.check(code >= 1 && code <= 4, "code", "must lie between 1 and 4");
  if (a.ok()) error.code = static_cast<ErrorCode>(code);
  a.required("message", error.message);
  a.optional("context", error.context);
  a.optional("hint", error.hint);
}

template <class Archive>
void describe(Archive& a, Failure& m) {
  describe_error(a, m.error);
  a.optional("damaged", m.damaged);
}

template <class Archive>
void describe(Archive& a, Missed& m) {
  a.required("step", m.step);
  describe_error(a, m.error);
}

template <class Archive>
void describe(Archive& a, Over& m) {
  a.optional("fetched", m.fetched);
}

}  // namespace tombolo::state

namespace tombolo::stage {

template <class Archive>
void describe(Archive& a, ExchangeReport& report) {
  a.required("computing_ns", report.computing.ns);
  a.required("waited_ns", report.waited.ns);
  a.required("bytes", report.bytes);
  a.required("in_flight_ns", report.in_flight.ns);
  const bool counts = report.computing.ns >= 0 && report.waited.ns >= 0 && report.bytes >= 0 &&
                      report.in_flight.ns >= 0;
  a.check(counts, "bytes", "must not be negative, nor may a span be");
}

template <class Archive>
void describe(Archive& a, BatchReport& report) {
  a.required("microbatches", report.microbatches);
  a.required("computing_ns", report.computing.ns);
  a.required("passes_ns", report.passes.ns);
  a.check(report.microbatches >= 1, "microbatches", "must be at least 1");
  a.check(report.computing.ns >= 0 && report.passes.ns >= 0, "computing_ns",
          "must not be negative, nor passes_ns");
}

}  // namespace tombolo::stage

namespace tombolo::observe {

template <class Archive>
void describe(Archive& a, ClassQueue& queue) {
  a.required("urgency", queue.urgency);
  a.required("bytes", queue.bytes);
}

template <class Archive>
void describe(Archive& a, LinkReport& report) {
  a.required("link", report.link);
  a.optional("queue", report.queue);
  a.optional("silent_ns", report.silent.ns);
}

}  // namespace tombolo::observe

namespace tombolo::join {

template <class Archive>
void describe(Archive& a, LinksReport& m) {
  a.optional("links", m.links);
  a.optional("done", m.activity.done);
  a.optional("waits", m.activity.waits);
  a.optional("certificate", m.certificate);
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
  a.required("epoch", m.epoch);
  a.required("first_iteration", m.first_iteration);
  a.optional("state", m.state);
  a.optional("state_epoch", m.state_epoch);
  a.optional("keep", m.keep);
  a.check(m.state_epoch >= 0, "state_epoch", "must not be negative");
}

template <class Archive>
void describe_dialling(Archive& a, Dialling& dialling) {
  auto number = static_cast<int32_t>(dialling);
  a.required("way", number);
  a.check(number >= 0 && number <= 2, "way", "must lie between 0 and 2");
  if (a.ok()) dialling = static_cast<Dialling>(number);
}

template <class Archive>
void describe(Archive& a, Unreached& m) {
  a.required("peer", m.peer);
  describe_dialling(a, m.dialling);
  a.optional("reason", m.reason);
}

template <class Archive>
void describe(Archive& a, Meet& m) {
  a.required("peer", m.peer);
  describe_dialling(a, m.dialling);
  a.optional("splice_port", m.splice_port);
  a.check(m.splice_port >= 0 && m.splice_port <= 65535, "splice_port", "is no port");
}

template <class Archive>
void describe(Archive& a, Waiting& m) {
  a.optional("datacenter", m.datacenter);
  a.optional("rank", m.rank);
  a.check(m.rank >= -1, "rank", "is no rank");
}

template <class Archive>
void describe(Archive& a, VacantRank& m) {
  a.required("rank", m.rank);
  a.check(m.rank >= 0, "rank", "must not be negative");
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
  a.optional("gradient_norm", m.report.gradient_norm);
  a.optional("update_skipped", m.report.update_skipped);
  a.optional("wan_wait_ns", m.report.wan_wait.ns);
  a.optional("exchange", m.report.exchange);
  a.optional("batch", m.report.batch);
}

template <class Archive>
void describe(Archive& a, DensityOrder& m) {
  a.required("first_iteration", m.first_iteration);
  a.required("density", m.density);
  a.check(m.first_iteration >= 1, "first_iteration", "must be at least 1");
  a.check(m.density > 0 && m.density <= 1, "density", "must be above 0 and at most 1");
}

template <class Archive>
void describe_order(Archive& a, int64_t& order) {
  a.required("order", order);
  a.check(order >= 1, "order", "must be at least 1");
}

template <class Archive>
void describe(Archive& a, BatchOrder& m) {
  describe_order(a, m.order);
  a.required("first_iteration", m.first_iteration);
  a.required("microbatches", m.microbatches);
  a.check(m.first_iteration >= 1, "first_iteration", "must be at least 1");
  const bool counts = std::all_of(m.microbatches.begin(), m.microbatches.end(),
                                  [](int64_t each) { return each >= 1; });
  a.check(counts && !m.microbatches.empty(), "microbatches",
          "must be numbers of at least 1, one for each pipeline");
}

template <class Archive>
void describe(Archive& a, BatchAnswer& m) {
  describe_order(a, m.order);
  a.required("in_time", m.in_time);
  a.optional("unusable", m.unusable);
  a.check(!m.in_time || m.unusable.empty(), "unusable", "must be empty where in_time is true");
}

template <class Archive>
void describe(Archive& a, BatchVerdict& m) {
  describe_order(a, m.order);
  a.required("holds", m.holds);
}

template <class Archive>
void describe(Archive& a, EvaluationReport& m) {
  a.required("step", m.evaluation.step);
  a.required("loss", m.evaluation.loss);
  a.optional("batches", m.evaluation.batches);
}

template <class Archive>
void describe(Archive& a, Recorded& m) {
  a.required("step", m.step);
  a.check(m.step >= 0, "step", "must not be negative");
}

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
constexpr std::string_view kPieceBegins = "{\"piece\"";  // as encode() writes it

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

ControlMessage control_message(const state::StateMessage& message) {
  return std::visit([](const auto& m) { return ControlMessage(m); }, message);
}

link::Payload encode(const ControlMessage& message) {
  link::Payload out = std::visit(
      [](const auto& m) {
        return link::json_payload(Value(Value::Table{{m.kKind, write_fields(m)}}));
      },
      message);
  if (const auto* piece = std::get_if<state::FilePiece>(&message)) {
    out.push_back(std::byte{'\n'});
    out.insert(out.end(), piece->bytes.begin(), piece->bytes.end());
  }
  return out;
}

Result<ControlMessage> decode(const link::Payload& payload) {
  std::string_view text(reinterpret_cast<const char*>(payload.data()), payload.size());
  std::string_view behind;
  if (text.starts_with(kPieceBegins)) {
    const size_t end = text.find('\n');
    if (end == std::string_view::npos)
      return failed(fmt::format("{}: a piece of a file without bytes", kName));
    behind = text.substr(end + 1);
    text = text.substr(0, end);
  }
  const Value value =
      TRY(link::read_json_payload(std::as_bytes(std::span(text)), kName, text.size()));
  const Value::Table* table = value.get<Value::Table>();
  if (!table || table->size() != 1) return failed(fmt::format("{}: wanted one kind", kName));
  ControlMessage message = TRY(decode_kind(table->front().first, table->front().second));
  auto* piece = std::get_if<state::FilePiece>(&message);
  if (!piece) return message;
  if (behind.data() == nullptr)
    return failed(fmt::format("{}: a piece of a file without bytes", kName));
  const auto* first = reinterpret_cast<const std::byte*>(behind.data());
  piece->bytes.assign(first, first + behind.size());
  return message;
}

}  // namespace tombolo::join
