#include "perform/generate/front_message.h"

#include <algorithm>
#include <iterator>

#include "base/check.h"
#include "base/json.h"

namespace tombolo::generate {

template <class Archive>
void describe(Archive& a, WorkerFacts& f) {
  a.required("vocabulary", f.vocabulary);
  a.required("positions", f.positions);
  a.required("weight_bytes", f.weight_bytes);
  a.required("kv_bytes_per_token", f.kv_bytes_per_token);
  a.required("kv_bytes_max", f.kv_bytes_max);
  a.optional("weights_digest", f.weights_digest);
  a.check(f.vocabulary > 0 && f.positions > 0, "vocabulary", "a model without tokens");
  a.check(f.weight_bytes >= 0 && f.kv_bytes_per_token > 0 && f.kv_bytes_max >= 0,
          "kv_bytes_per_token", "bytes below zero");
}

template <class Archive>
void describe(Archive& a, DecodePlace& d) {
  a.required("host", d.host);
  a.required("port", d.port);
  a.required("token", d.token);
  a.optional("credentials", d.credentials);
  a.optional("plain_tcp", d.plain_tcp);
  a.optional("connections", d.connections);
  a.check(d.port > 0 && d.port < 65'536, "port", "must lie between 1 and 65535");
  a.check(d.connections > 0 && d.connections <= 16, "connections", "must lie between 1 and 16");
}

template <class Archive>
void describe(Archive& a, FrontMessage& m) {
  a.required("kind", m.kind);
  a.required("id", m.request.id);
  a.optional("tokens", m.request.tokens);
  a.optional("tokens_max", m.request.tokens_max);
  a.optional("stop", m.request.stop);
  if (Archive::kReads || m.request.tokens_min != 0) a.optional("tokens_min", m.request.tokens_min);
  a.optional("temperature", m.request.sampling.temperature);
  a.optional("top_p", m.request.sampling.top_p);
  a.optional("seed", m.request.sampling.seed);
  if (Archive::kReads || m.request.share != Share::kWhole) a.optional("share", m.request.share);
  if (Archive::kReads || m.request.flex) a.optional("flex", m.request.flex);
  if (Archive::kReads || m.decode) a.optional("decode", m.decode);
  a.check(m.kind != FrontWord::kDecode || m.decode, "decode", "where is it?");
  a.check(m.request.sampling.temperature >= 0 && m.request.sampling.temperature <= 100,
          "temperature", "must lie between 0 and 100");
  a.check(m.request.sampling.top_p > 0 && m.request.sampling.top_p <= 1, "top_p",
          "must lie between 0 and 1");
}

template <class Archive>
void describe(Archive& a, WorkerMessage& m) {
  a.required("kind", m.kind);
  a.optional("id", m.id);
  a.optional("token", m.token);
  a.optional("why", m.why);
  a.optional("message", m.message);
  a.optional("facts", m.facts);
  a.check(m.kind != WorkerWord::kReady || m.facts, "facts", "what is ready?");
}

namespace {

template <class Message>
Result<Message> parse(std::string_view line, const char* name) {
  return read_fields<Message>(TRY(parse_json(line, name, 0)), name);
}

}  // namespace

namespace {

struct SaidStep {
  WorkerWord word;
  StepKind step;
};
constexpr SaidStep kSaidSteps[] = {{WorkerWord::kToken, StepKind::kToken},
                                   {WorkerWord::kStop, StepKind::kStop},
                                   {WorkerWord::kLength, StepKind::kLength},
                                   {WorkerWord::kFailed, StepKind::kFailed}};

}  // namespace

WorkerMessage message_of(const EngineEvent& event) {
  const auto* said = std::ranges::find(kSaidSteps, event.kind, &SaidStep::step);
  CHECK(said != std::end(kSaidSteps), "an engine says step {}", static_cast<int>(event.kind));
  return {.kind = said->word, .id = event.id, .token = event.token, .message = event.message};
}

std::optional<StepKind> step_of(WorkerWord word) {
  const auto* said = std::ranges::find(kSaidSteps, word, &SaidStep::word);
  return said == std::end(kSaidSteps) ? std::nullopt : std::optional(said->step);
}

std::string to_line(const FrontMessage& message) { return to_json(write_fields(message), -1); }
std::string to_line(const WorkerMessage& message) { return to_json(write_fields(message), -1); }

Result<FrontMessage> parse_front(std::string_view line) {
  return parse<FrontMessage>(line, "the front's message");
}
Result<WorkerMessage> parse_worker(std::string_view line) {
  return parse<WorkerMessage>(line, "the worker's message");
}

Status Lines::add(std::string_view bytes) {
  pending_.erase(0, taken_);
  taken_ = 0;
  pending_ += bytes;
  const size_t last = pending_.rfind('\n');
  const size_t begun = last == std::string::npos ? pending_.size() : pending_.size() - last - 1;
  if (begun > kLineMax) return failed(fmt::format("a message of more than {} bytes", kLineMax));
  return {};
}

std::optional<std::string> Lines::next() {
  const size_t end = pending_.find('\n', taken_);
  if (end == std::string::npos) return std::nullopt;
  std::string line = pending_.substr(taken_, end - taken_);
  taken_ = end + 1;
  return line;
}

}  // namespace tombolo::generate
