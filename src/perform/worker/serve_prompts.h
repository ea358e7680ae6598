// A worker that answers prompts: alone (`tombolo-worker generate`), or in the gaps of training.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/clock.h"
#include "perform/generate/engine.h"
#include "perform/generate/front_message.h"
#include "perform/handover/decode_link.h"
#include "perform/stage/filler.h"
#include "perform/worker/prompt_door.h"
#include "perform/worker/shard_ring.h"

namespace tombolo::worker {

struct PromptOptions {
  std::string weights;  // folder, as Hugging Face's transformers writes it
  int64_t context = 0;  // the most tokens of prompt and answer; 0: as many as the model has
  generate::EngineLimits limits;
  int64_t threads = 1;
};

// Receives requests and sends tokens through the socket (generate/front_message.h), which it owns. It
// polls between any two layers, so a refusal or a cancellation waits for one layer at most. Returns
// when the other end has closed it. Unusable if the weights are, and without LibTorch.
Status serve_prompts(const PromptOptions& options, int socket, handover::HostServices host);

// The same with a model that is already loaded.
Status serve_prompts(const generate::Shard& shard, const generate::EngineLimits& limits, int socket,
                     handover::HostServices host);

// Answers prompts whose prefill ran elsewhere (handover/decode_worker.h), until it is killed. Once it
// listens it writes two lines to the socket, which it owns: its facts, and its port.
Status serve_decode(const PromptOptions& options, const generate::DecodePlace& place, int socket,
                    handover::HostServices host);

// Answers prompts while a rank waits for messages: fronts of the same user connect to the Unix socket
// `path`, one at a time; an old socket file there is replaced. A front that leaves, that does not read
// or that sends an invalid message is dropped, with its prompts; training is not affected.
//
// With a ring the rank has only its layers of the model: the first rank talks to fronts, the others
// compute what it sends (shard_filler.h), each with `limits.kv_bytes` of its own.
Result<std::unique_ptr<stage::Filler>> prompt_filler(const PromptOptions& options,
                                                     const std::string& path,
                                                     handover::HostServices host,
                                                     PromptGaps gaps = {},
                                                     std::optional<ShardRing> ring = {});
// The shard that the ring's rank has, or a whole model.
Result<std::unique_ptr<stage::Filler>> prompt_filler(std::unique_ptr<generate::Shard> shard,
                                                     const generate::EngineLimits& limits,
                                                     const std::string& path,
                                                     handover::HostServices host,
                                                     PromptGaps gaps = {},
                                                     std::optional<ShardRing> ring = {});

}  // namespace tombolo::worker
