// Some consecutive layers of a decoder that answer prompts, as a rank computes them in the gaps
// of training, or a standalone decode worker.
//
// A pass takes some tokens through the layers, one call per layer, and may pause between two for any
// time. The first pass of a prompt is its prefill: all of its tokens at once. Those that
// follow have one token each (decode). Passes of different prompts may alternate; they share only
// the weights, which no pass writes.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "base/result.h"
#include "perform/generate/kv_cache.h"
#include "spec/model/model.h"

namespace tombolo::generate {

// `tokens` if the shard has the embedding, else `hidden`.
struct PassInput {
  std::span<const int64_t> tokens = {};
  std::span<const float> hidden = {};  // [tokens, hidden]: the output of the shard before
};

class Pass {
 public:
  virtual ~Pass() = default;

  virtual int64_t rows() const = 0;         // its tokens
  virtual int64_t layers_left() const = 0;  // 0: done
  // One layer, the embedding before the first and the head behind the last included. CHECKs that
  // one is left. Keys and values are in the cache from then on; the last layer appends its tokens.
  virtual Status do_layer() = 0;
  // CHECKs that it is done. Hidden states [rows, hidden], or, where the shard has the head, logits
  // [vocabulary] of the last token alone.
  virtual std::span<const float> output() const = 0;
};

struct ShardFacts {
  model::Model model;        // `sequence`: the most tokens of prompt and answer together
  model::Slice slice;        // one layer at least
  int64_t weight_bytes = 0;  // that its weights take, exactly
  std::string weights_digest =
      {};  // of the whole model's (weights/weight_folder.h); empty: not known

  KvShape kv() const { return kv_shape(model, slice); }
};

class Shard {
 public:
  virtual ~Shard() = default;
  virtual const ShardFacts& facts() const = 0;

  // A pass of the tokens that follow those in `cache`, which belongs to one prompt, has room for
  // them and outlives the pass. Unusable for ids outside the vocabulary and beyond the model's
  // positions.
  virtual Result<std::unique_ptr<Pass>> begin(const PassInput& input, KvCache& cache) const = 0;
};

}  // namespace tombolo::generate
