#include "perform/train/prefill_shard.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "base/check.h"
#include "perform/train/blas_check.h"
#include "perform/train/guarded.h"
#include "perform/train/operations.h"
#include "perform/train/stage_module.h"

namespace tombolo::train {
namespace {

using generate::KvCache;
using generate::PassInput;
using model::Positions;

// A tensor over memory that the caller owns, which outlives it.
at::Tensor view_of(std::span<float> numbers, int64_t rows) {
  return at::from_blob(numbers.data(), {rows, static_cast<int64_t>(numbers.size()) / rows},
                       at::kFloat);
}

class TorchShard final : public generate::Shard {
 public:
  TorchShard(generate::ShardFacts facts, StageModule module)
      : facts_(std::move(facts)), module_(std::move(module)) {}

  const generate::ShardFacts& facts() const override { return facts_; }
  Result<std::unique_ptr<generate::Pass>> begin(const PassInput& input,
                                                KvCache& cache) const override;
  const StageModule& module() const { return module_; }

 private:
  generate::ShardFacts facts_;
  StageModule module_;
};

class TorchPass final : public generate::Pass {
 public:
  TorchPass(const TorchShard& shard, KvCache& cache, at::Tensor input)
      : shard_(shard), cache_(cache), past_(cache.tokens()), x_(std::move(input)) {}

  int64_t rows() const override { return x_.size(0); }
  int64_t layers_left() const override { return shard_.facts().slice.layers - done_; }
  Status do_layer() override {
    CHECK(layers_left() > 0, "all layers are done");
    return guarded("computing a layer of a prompt", [&]() -> Status {
      const at::NoGradGuard no_gradients;
      begin();
      layer();
      if (++done_ == shard_.facts().slice.layers) finish();
      return {};
    });
  }
  std::span<const float> output() const override {
    CHECK(layers_left() == 0, "{} layers are left", layers_left());
    return {output_.data_ptr<float>(), static_cast<size_t>(output_.numel())};
  }

 private:
  void begin() {
    if (done_ > 0) return;
    const model::Model& m = shard_.facts().model;
    if (m.positions == Positions::kRotary) {
      tables_ = rotary_tables({m.rope_theta, m.rope_scaling}, m.head_size(), past_, x_.size(0));
    }
    if (shard_.facts().slice.embedding) x_ = shard_.module().embed(x_, past_);
  }

  void layer() {
    const model::Model& m = shard_.facts().model;
    const auto index = static_cast<size_t>(done_);
    const int64_t count = x_.size(0), all = past_ + count;
    const StageModule& module = shard_.module();
    const StageModule::Projected now = module.project(index, x_);
    view_of(cache_.keys(done_, past_, count), count).copy_(turned(index, now.key, m.kv_heads));
    view_of(cache_.values(done_, past_, count), count).copy_(now.value);
    const at::Tensor mixed = attend_back(
        module.attention_shape(count), module.window(index), turned(index, now.query, m.heads),
        view_of(cache_.keys(done_, 0, all), all), view_of(cache_.values(done_, 0, all), all));
    x_ = module.finish_layer(index, x_, mixed);
  }

  // [rows, heads * size], each head rotated by its row's position, where the layer does so.
  at::Tensor turned(size_t index, const at::Tensor& x, int64_t heads) const {
    if (!shard_.module().rotates(index)) return x;
    const int64_t count = x.size(0);
    return rotate(x.view({count, heads, -1}).transpose(0, 1), tables_)
        .transpose(0, 1)
        .reshape({count, -1});
  }

  void finish() {
    output_ = x_;
    if (shard_.facts().slice.head) output_ = shard_.module().logits(x_.slice(0, -1));
    output_ = output_.contiguous();
    cache_.append(x_.size(0));
  }

  const TorchShard& shard_;
  KvCache& cache_;
  int64_t past_ = 0;
  int64_t done_ = 0;
  AttentionTables tables_;
  at::Tensor
      x_;  // tokens int64 [rows] before the first layer of a first shard, else [rows, hidden]
  at::Tensor output_;
};

Result<std::unique_ptr<generate::Pass>> TorchShard::begin(const PassInput& input,
                                                          KvCache& cache) const {
  const model::Model& m = facts_.model;
  CHECK(cache.shape() == facts_.kv(), "a cache of {} layers of {} numbers", cache.shape().layers,
        cache.shape().width);
  CHECK(facts_.slice.embedding ? input.hidden.empty() : input.tokens.empty(),
        "tokens are for the shard with the embedding, hidden states for others");
  const int64_t rows = facts_.slice.embedding
                           ? static_cast<int64_t>(input.tokens.size())
                           : static_cast<int64_t>(input.hidden.size()) / m.hidden;
  CHECK(rows > 0 && rows <= cache.capacity() - cache.tokens(), "{} tokens, room for {}", rows,
        cache.capacity() - cache.tokens());
  if (cache.tokens() + rows > m.sequence) {
    return unusable(
        fmt::format("{} tokens: the model has {} positions", cache.tokens() + rows, m.sequence));
  }
  for (const int64_t token : input.tokens) {
    if (token >= 0 && token < m.vocabulary) continue;
    return unusable(fmt::format("token {}: the vocabulary has {}", token, m.vocabulary));
  }
  return guarded("beginning a prompt", [&]() -> Result<std::unique_ptr<generate::Pass>> {
    at::Tensor x;
    if (facts_.slice.embedding) {
      x = at::empty({rows}, at::kLong);
      std::ranges::copy(input.tokens, x.data_ptr<int64_t>());
    } else {
      x = at::empty({rows, m.hidden}, at::kFloat);
      std::ranges::copy(input.hidden, x.data_ptr<float>());
    }
    return std::make_unique<TorchPass>(*this, cache, std::move(x));
  });
}

}  // namespace

Result<std::unique_ptr<generate::Shard>> load_shard(const weights::WeightFolder& folder,
                                                    const model::Slice& slice, int64_t context) {
  TRY(check_blas());
  model::Model model = folder.config().model;
  if (model.positions == Positions::kLearned) {
    model.positions_max = model.positions_max.value_or(model.sequence);
  }
  if (context > 0) model.sequence = context;
  TRY(folder.check(model));
  if (slice.layers < 1) return unusable("a shard without layers", "as many shards as layers");
  const std::string digest = TRY(folder.digest());
  return guarded("reading weights", [&]() -> Result<std::unique_ptr<generate::Shard>> {
    model::Model built = model;
    built.sequence = 1;  // its tables are for samples of one length, as in training
    StageModule module = TRY(StageModule::create(built, slice, std::nullopt));
    int64_t bytes = 0;
    for (Parameter& parameter : module.parameters()) {
      at::Tensor& value = parameter.value;
      value.set_requires_grad(false);
      TRY(folder.read(parameter.name, value.sizes().vec(),
                      {value.data_ptr<float>(), static_cast<size_t>(value.numel())}));
      bytes += static_cast<int64_t>(value.nbytes());
    }
    return std::make_unique<TorchShard>(
        generate::ShardFacts{
            .model = model, .slice = slice, .weight_bytes = bytes, .weights_digest = digest},
        std::move(module));
  });
}

}  // namespace tombolo::train
