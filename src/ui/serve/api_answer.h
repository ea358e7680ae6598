// Answers as OpenAI's clients read them: the objects text_completion, chat.completion and
// chat.completion.chunk, whole or as server-sent events. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/value.h"
#include "ui/serve/backend.h"

namespace tombolo::serve {

struct AnswerFacts {
  bool chat = false;
  std::string id;  // "cmpl-..." or "chatcmpl-..."
  std::string model;
  int64_t created = 0;  // seconds since 1970
  bool flex = false;    // the tier that it was answered with
};

struct Usage {
  int64_t prompt = 0, answer = 0;
};

Value whole_answer(const AnswerFacts& facts, const std::string& text, StepKind end,
                   const Usage& usage);

// A piece of a stream. `end`: in the last one, why it is the last.
Value answer_chunk(const AnswerFacts& facts, const std::string& text, std::optional<StepKind> end);
// The first one of a chat: the role.
Value opening_chunk(const AnswerFacts& facts);
// After the last one, if the client asked for it.
Value usage_chunk(const AnswerFacts& facts, const Usage& usage);

// "data: {...}\n\n"
std::string event(const Value& value);
inline constexpr const char* kDone = "data: [DONE]\n\n";

}  // namespace tombolo::serve
