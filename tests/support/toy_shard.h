// A model whose next token is the sum of all tokens before it, modulo its vocabulary: whoever loses,
// repeats or mixes up a key gets another one. A layer takes a stated time on the clock. A shard of it passes
// tokens on as the first number of a row.
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
  ToyShard(Clock& clock, SimDuration layer, model::Model model = toy_model())
      : ToyShard(clock, layer, model, model::stage_slice(model, 1, 0)) {}
  ToyShard(Clock& clock, SimDuration layer, const model::Model& model, const model::Slice& slice)
      : clock_(clock), layer_(layer) {
    facts_ = {.model = model, .slice = slice, .weight_bytes = 4 * model::parameters(model, slice)};
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
          left_(shard.facts_.slice.layers) {
      const auto width = static_cast<size_t>(shard.facts_.model.hidden);
      for (size_t i = 0; i < input.hidden.size(); i += width) {
        const float token = input.hidden[i];
        tokens_.push_back(token >= 0 && token < 10 ? static_cast<int64_t>(token) : 0);
      }
    }
    int64_t rows() const override { return static_cast<int64_t>(tokens_.size()); }
    int64_t layers_left() const override { return left_; }
    Status do_layer() override {
      CHECK(left_ > 0, "all layers are done");
      if (shard_.fails) return failed("the toy is broken");
      shard_.clock_.sleep_until(shard_.clock_.now() + shard_.layer_);
      const int64_t layer = shard_.facts_.slice.layers - left_;
      const auto keys = cache_.keys(layer, past_, rows());
      const int64_t of_model = shard_.facts_.slice.first_layer + layer;
      for (size_t i = 0; i < tokens_.size(); ++i)
        keys[i] = static_cast<float>(tokens_[i] + of_model);
      if (--left_ > 0) return {};
      cache_.append(rows());
      if (!shard_.facts_.slice.head) return pass_on();
      int64_t sum = 0;
      for (const float key : cache_.keys(layer, 0, past_ + rows())) {
        if (!(key >= 0 && key < 1e6F)) return failed("a key that is none of the toy's");
        sum += static_cast<int64_t>(key) - of_model;
      }
      output_.assign(10, 0.0F);
      output_[static_cast<size_t>((sum % 10 + 10) % 10)] = 1;
      return {};
    }
    std::span<const float> output() const override { return output_; }

   private:
    Status pass_on() {
      const auto width = static_cast<size_t>(shard_.facts_.model.hidden);
      output_.assign(tokens_.size() * width, 0.0F);
      for (size_t i = 0; i < tokens_.size(); ++i)
        output_[i * width] = static_cast<float>(tokens_[i]);
      return {};
    }

    const ToyShard& shard_;
    KvCache& cache_;
    std::vector<int64_t> tokens_;
    int64_t past_ = 0;
    int64_t left_ = 0;
    std::vector<float> output_;
  };

  Clock& clock_;
  SimDuration layer_;
  ShardFacts facts_;
};

}  // namespace tombolo::generate
