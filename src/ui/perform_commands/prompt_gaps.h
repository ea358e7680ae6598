// Prompts in the gaps of a run: what the ranks receive beforehand, and how much they computed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/value.h"
#include "perform/join/run_prompts.h"
#include "spec/plan/plan.h"
#include "spec/trace/trace.h"
#include "ui/perform_commands/perform_commands.h"

namespace tombolo::perform_commands {

// Puts what --prompt-weights or --prompt-load ask for into this process' environment: also for
// ranks that others start with it. Nothing: neither was given. Unusable: no model there, values out
// of range, both.
Result<std::optional<join::RunPrompts>> place_prompts(const TrainOptions& options);

// The same with what follows from the Plan: the gaps of the ranks that answer, by its prediction,
// and how long a layer of a load takes by the law `prefill`. Ranks that were started elsewhere get
// no predicted gaps. Unusable: a rank that does not exist, a load on devices that compute or
// without [prefill], or of prompts that are too long.
Status place_gaps(const TrainOptions& options, const plan::Plan& plan, join::RunPrompts& prompts);

// From the records of the ranks that answered prompts.
struct PromptUse {
  int64_t ranks = 0;
  int64_t layers = 0;
  double layers_s = 0;        // all of them together
  double training_share = 0;  // of these ranks' time, from first computation to last
  double prompt_share = 0;    // the same of layers
  // How often a message of training was there while a layer ran, and for how long it waited.
  int64_t holds = 0;
  double held_s = 0, held_max_s = 0;
  double held_share = 0;  // of these ranks' time
  double guard_s = 0;     // the longest that was learned; 0: no gap was predicted

  bool operator==(const PromptUse&) const = default;
};
// Nothing: no rank did.
std::optional<PromptUse> prompt_use(const trace::Trace& trace);
std::string to_line(const PromptUse& use, trace::Provenance provenance);
Value to_value(const PromptUse& use);

}  // namespace tombolo::perform_commands
