#include "ui/serve/api_answer.h"

#include "base/check.h"
#include "base/json.h"

namespace tombolo::serve {
namespace {

Value usage_object(const Usage& usage) {
  return Value::Table{{"prompt_tokens", usage.prompt},
                      {"completion_tokens", usage.answer},
                      {"total_tokens", usage.prompt + usage.answer}};
}

Value object(const AnswerFacts& facts, const char* kind, Value::Array choices) {
  Value out = Value::Table{{"id", facts.id},
                           {"object", kind},
                           {"created", facts.created},
                           {"model", facts.model},
                           {"choices", std::move(choices)}};
  if (facts.flex) out.set("service_tier", "flex");
  return out;
}

Value finish_reason(std::optional<StepKind> end) {
  if (!end) return {};
  CHECK(end == StepKind::kStop || end == StepKind::kLength, "an answer finished by step {}",
        static_cast<int>(*end));
  return end == StepKind::kStop ? "stop" : "length";
}

Value choice(const char* key, Value content, std::optional<StepKind> end) {
  return Value::Table{{"index", 0},
                      {key, std::move(content)},
                      {"logprobs", Value()},
                      {"finish_reason", finish_reason(end)}};
}

const char* chunk_kind(const AnswerFacts& facts) {
  return facts.chat ? "chat.completion.chunk" : "text_completion";
}

}  // namespace

Value whole_answer(const AnswerFacts& facts, const std::string& text, StepKind end,
                   const Usage& usage) {
  Value content =
      facts.chat ? Value(Value::Table{{"role", "assistant"}, {"content", text}}) : Value(text);
  Value out = object(facts, facts.chat ? "chat.completion" : "text_completion",
                     {choice(facts.chat ? "message" : "text", std::move(content), end)});
  out.set("usage", usage_object(usage));
  return out;
}

Value answer_chunk(const AnswerFacts& facts, const std::string& text, std::optional<StepKind> end) {
  if (!facts.chat) return object(facts, chunk_kind(facts), {choice("text", text, end)});
  Value::Table delta;
  if (!text.empty()) delta.emplace_back("content", text);
  return object(facts, chunk_kind(facts), {choice("delta", std::move(delta), end)});
}

Value opening_chunk(const AnswerFacts& facts) {
  return object(facts, chunk_kind(facts),
                {choice("delta", Value::Table{{"role", "assistant"}, {"content", ""}}, {})});
}

Value usage_chunk(const AnswerFacts& facts, const Usage& usage) {
  Value out = object(facts, chunk_kind(facts), {});
  out.set("usage", usage_object(usage));
  return out;
}

std::string event(const Value& value) { return "data: " + to_json(value, -1) + "\n\n"; }

}  // namespace tombolo::serve
