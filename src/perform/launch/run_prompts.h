// Prompts that a rank answers while it waits for messages (worker/serve_prompts.h). How the command
// tells the rank's process: in a variable of the environment, as the token goes, so that it gets
// there whoever starts the ranks.
#pragma once

#include <optional>
#include <string>

#include "base/result.h"
#include "base/time.h"

namespace tombolo::launch {

inline constexpr const char* kPromptsVariable = "TOMBOLO_PROMPTS";
// The token of a decode worker and those who call it (handover/decode_link.h), in hexadecimal.
inline constexpr const char* kDecodeTokenVariable = "TOMBOLO_DECODE_TOKEN";

struct RunPrompts {
  int32_t rank = 0;     // which one answers
  std::string weights;  // folder with a model of its own
  std::string socket;   // path, on which fronts find it
  int64_t context = 0;
  int64_t kv_bytes = int64_t{1} << 30;
  int64_t requests = 16;
  int64_t piece_ns =
      5'000'000;  // the longest layer: so long a message of training may have to wait

  bool operator==(const RunPrompts&) const = default;
};

std::string to_text(const RunPrompts& prompts);
Result<RunPrompts> parse_run_prompts(const std::string& text);
// Nothing where the variable is not set.
Result<std::optional<RunPrompts>> prompts_of_environment();

}  // namespace tombolo::launch
