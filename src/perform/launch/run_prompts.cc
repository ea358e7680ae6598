#include "perform/launch/run_prompts.h"

#include <cstdlib>

#include "base/fields.h"
#include "base/json.h"

namespace tombolo::launch {

template <class Archive>
void describe(Archive& a, RunPrompts& p) {
  a.required("rank", p.rank);
  a.required("weights", p.weights);
  a.required("socket", p.socket);
  a.required("context", p.context);
  a.required("kv_bytes", p.kv_bytes);
  a.required("requests", p.requests);
  a.required("piece_ns", p.piece_ns);
  a.check(p.rank >= 0, "rank", "must not be negative");
  a.check(p.context >= 0, "context", "must not be negative");
  a.check(p.kv_bytes > 0, "kv_bytes", "must be positive");
  a.check(p.requests > 0, "requests", "must be positive");
  a.check(p.piece_ns > 0 && p.piece_ns <= 10'000'000'000, "piece_ns",
          "must lie between 1 and 10000000000");
}

std::string to_text(const RunPrompts& prompts) { return to_json(write_fields(prompts), -1); }

Result<RunPrompts> parse_run_prompts(const std::string& text) {
  return read_fields<RunPrompts>(TRY(parse_json(text, kPromptsVariable)), kPromptsVariable);
}

Result<std::optional<RunPrompts>> prompts_of_environment() {
  const char* text = std::getenv(kPromptsVariable);
  if (!text) return std::nullopt;
  return TRY(parse_run_prompts(text));
}

}  // namespace tombolo::launch
