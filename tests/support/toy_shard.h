// A model whose next token is the sum of all tokens before it, modulo its vocabulary: whoever loses,
// repeats or mixes up a key gets another one. A layer takes a stated time on the clock.
#pragma once

#include <numeric>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/clock.h"
#include "perform/generate/shard.h"

namespace tombolo::generate {

inline model::Model toy_model(int64_t layers = 3, int64_t context = 64) {
  return {.name = "toy",
          .layers = layers,
          .hidden = 4,
          .heads = 1,
          .kv_heads = 1,
          .ffn = 8,
          .vocabulary = 10,
          .sequence = context,
          .head_dim = 1};
}

class ToyShard final : public Shard {
 public:
  ToyShard(ManualClock& clock, SimDuration layer, model::Model model = toy_model())
      : clock_(clock), layer_(layer) {
    facts_ = {.model = model,
              .slice = {.layers = model.layers, .embedding = true, .head = true},
              .weight_bytes = 4 * model::parameters(model)};
  }
  const ShardFacts& facts() const override { return facts_; }
  Result<std::unique_ptr<Pass>> begin(const PassInput& input, KvCache& cache) const override {
    return std::make_unique<ToyPass>(*this, input, cache);
  }

  static int64_t next(const std::vector<int64_t>& tokens) {
    return std::accumulate(tokens.begin(), tokens.end(), int64_t{0}) % 10;
  }
  bool fails = false;

 private:
  class ToyPass final : public Pass {
   public:
    ToyPass(const ToyShard& shard, const PassInput& input, KvCache& cache)
        : shard_(shard),
          cache_(cache),
          tokens_(input.tokens.begin(), input.tokens.end()),
          past_(cache.tokens()),
          left_(shard.facts_.model.layers) {}
    int64_t rows() const override { return static_cast<int64_t>(tokens_.size()); }
    int64_t layers_left() const override { return left_; }
    Status do_layer() override {
      CHECK(left_ > 0, "all layers are done");
      if (shard_.fails) return failed("the toy is broken");
      shard_.clock_.advance(shard_.layer_);
      const int64_t layer = shard_.facts_.model.layers - left_;
      const auto keys = cache_.keys(layer, past_, rows());
      for (size_t i = 0; i < tokens_.size(); ++i) keys[i] = static_cast<float>(tokens_[i] + layer);
      if (--left_ > 0) return {};
      cache_.append(rows());
      int64_t sum = 0;
      for (const float key : cache_.keys(layer, 0, past_ + rows())) {
        if (!(key >= 0 && key < 1e6F)) return failed("a key that is none of the toy's");
        sum += static_cast<int64_t>(key) - layer;
      }
      logits_.assign(10, 0.0F);
      logits_[static_cast<size_t>((sum % 10 + 10) % 10)] = 1;
      return {};
    }
    std::span<const float> output() const override { return logits_; }

   private:
    const ToyShard& shard_;
    KvCache& cache_;
    std::vector<int64_t> tokens_;
    int64_t past_ = 0;
    int64_t left_ = 0;
    std::vector<float> logits_;
  };

  ManualClock& clock_;
  SimDuration layer_;
  ShardFacts facts_;
};

}  // namespace tombolo::generate
