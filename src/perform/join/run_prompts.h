// Prompts that a rank answers while it waits for messages (worker/serve_prompts.h). The command
// passes them to the rank's process in an environment variable, like the token, so that they get
// there whichever launcher starts the ranks.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "steer/prefill/rank_windows.h"

namespace tombolo::join {

inline constexpr const char* kPromptsVariable = "TOMBOLO_PROMPTS";
// The token of a decode worker and those who call it (handover/decode_link.h), in hexadecimal.
inline constexpr const char* kDecodeTokenVariable = "TOMBOLO_DECODE_TOKEN";

// When a rank's training leaves time, by the Plan's prediction.
struct RankGaps {
  int32_t rank = 0;
  prefill::RankPlan plan;

  bool operator==(const RankGaps&) const = default;
};

// Prompts without end and without words: emulated ranks wait for as long as each layer would take.
struct PromptLoad {
  int64_t tokens = 0;  // of each
  int64_t layers = 1;
  int64_t layer_ns = 1;
  int64_t ends_ns = 0;  // with the last layer

  bool operator==(const PromptLoad&) const = default;
};

struct RunPrompts {
  // Which ranks answer, by pipeline. Each pipeline has the whole model, split evenly over its ranks in
  // consecutive layers; its first rank meets its fronts. With a load all ranks answer, whatever stands here.
  std::vector<std::vector<int32_t>> pipelines = {{0}};
  std::string weights;  // folder with a model of its own; empty: a load
  std::string socket;   // path, on which fronts find the first pipeline (socket_of)
  int64_t context = 0;
  int64_t kv_bytes = int64_t{1} << 30;
  int64_t requests = 16;
  int64_t piece_ns =
      5'000'000;  // how long a message may have to wait where the Plan predicts no gap
  int64_t guard_ns = 1'000'000;        // kept free before a computation, until it is learned
  int64_t within_ns = 10'000'000'000;  // to the first token, or a prompt is refused
  std::vector<RankGaps> gaps;          // of the ranks that answer; left out: nothing is predicted
  std::optional<PromptLoad> load;

  bool operator==(const RunPrompts&) const = default;
};

// At most kPromptsTextMax bytes, which a variable of the environment may have: gaps beyond are left
// out.
inline constexpr size_t kPromptsTextMax = 120'000;
std::string to_text(const RunPrompts& prompts);
Result<RunPrompts> parse_run_prompts(const std::string& text);
// Nothing where the variable is not set.
Result<std::optional<RunPrompts>> prompts_of_environment();

// The one with this rank, if any.
std::optional<size_t> pipeline_of(const RunPrompts& prompts, int32_t rank);
// Where fronts find a pipeline: prompts.socket, prompts-1.socket and so on.
std::string socket_of(const RunPrompts& prompts, size_t pipeline);

// Of this rank; nullopt: no gap of it is predicted.
std::optional<prefill::RankWindows> windows_of(const RunPrompts& prompts, int32_t rank);

}  // namespace tombolo::join
