// A worker that answers prompts, and does nothing else: requests come and tokens go through a
// socket (generate/front_message.h). It looks at the socket between any two layers, so a refusal or
// a cancellation waits for one layer at most.
#pragma once

#include <cstdint>
#include <string>

#include "base/clock.h"
#include "perform/generate/engine.h"

namespace tombolo::worker {

struct PromptOptions {
  std::string weights;  // folder, as Hugging Face's transformers writes it
  int64_t context = 0;  // the most tokens of prompt and answer; 0: as many as the model has
  generate::EngineLimits limits;
  int64_t threads = 1;
};

// Returns when the other end has closed the socket. Unusable where the weights are, and without
// LibTorch.
Status serve_prompts(const PromptOptions& options, int socket, const Clock& clock);

// The same with a model that is there already.
Status serve_prompts(const generate::Shard& shard, const generate::EngineLimits& limits, int socket,
                     const Clock& clock);

}  // namespace tombolo::worker
