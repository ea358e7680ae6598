#include "perform/train/stage_module.h"

#include <cmath>

#include "base/random.h"

namespace tombolo::train {
namespace {

using model::Activation;
using model::Norm;
using model::Positions;

Status check_shape(const model::Model& m, const model::Slice& slice) {
  if (const std::string departure = model::departure(m); !departure.empty()) {
    return unusable(
        fmt::format("model.{}: such models can be predicted, not trained yet", departure),
        "a model without it, or device = \"emulated:...\"");
  }
  if (m.tied_embeddings && slice.embedding != slice.head) {
    return unusable(
        "model.tied_embeddings = true: the embedding and the head are on different stages, and "
        "keeping their copies equal is not available yet",
        "pipeline = 1, or tied_embeddings = false");
  }
  if (m.positions == Positions::kRotary && m.head_size() % 2 != 0) {
    return unusable(fmt::format("model.positions = \"rope\": hidden / heads = {} is odd, and a "
                                "rotation turns pairs",
                                m.head_size()),
                    "an even hidden / heads, or positions = \"learned\"");
  }
  return {};
}

}  // namespace

// Draws the parameters one after the other.
class StageModule::Builder {
 public:
  Builder(StageModule& module, uint64_t seed, at::ScalarType type)
      : module_(module), seed_(seed), type_(type) {}

  Affine matrix(const std::string& name, int64_t rows, int64_t columns, double deviation,
                bool bias) {
    Random random = seed_.stream("init/" + name + ".weight");
    at::Tensor values = at::empty({rows, columns}, at::kDouble);
    double* value = values.data_ptr<double>();
    for (int64_t i = 0; i < values.numel(); ++i) value[i] = deviation * random.normal();
    Affine affine{add(name + ".weight", values, true), kNone};
    if (bias) affine.bias = add(name + ".bias", at::zeros({rows}, at::kDouble), false);
    return affine;
  }

  Affine norm(const std::string& name) {
    const model::Model& m = module_.model_;
    Affine affine{add(name + ".weight", at::ones({m.hidden}, at::kDouble), false), kNone};
    if (m.norm == Norm::kLayer) {
      affine.bias = add(name + ".bias", at::zeros({m.hidden}, at::kDouble), false);
    }
    return affine;
  }

 private:
  int add(const std::string& name, const at::Tensor& values, bool decays) {
    at::Tensor leaf = values.to(type_);
    leaf.set_requires_grad(true);
    module_.parameters_.push_back({name, leaf, decays});
    return static_cast<int>(module_.parameters_.size()) - 1;
  }

  StageModule& module_;
  Random seed_;
  at::ScalarType type_;
};

Result<StageModule> StageModule::create(const model::Model& m, const model::Slice& slice,
                                        uint64_t seed, at::ScalarType type) {
  TRY(check_shape(m, slice));
  StageModule module;
  module.model_ = m;
  Builder builder(module, seed, type);
  const double deviation = 1 / std::sqrt(3.0 * static_cast<double>(m.hidden));
  const double residual = deviation / std::sqrt(2.0 * static_cast<double>(m.layers));
  const int64_t kv = m.kv_heads * m.head_size();
  if (slice.embedding) {
    // A tied embedding starts as the head does, or the first logits would be far from even.
    const double wide = m.tied_embeddings ? deviation : 0.1;
    module.embedding_ = builder.matrix("embedding", m.vocabulary, m.hidden, wide, false);
    if (m.positions == Positions::kLearned) {
      module.positions_ = builder.matrix("positions", m.sequence, m.hidden, wide, false);
    }
  }
  for (int64_t i = slice.first_layer; i < slice.first_layer + slice.layers; ++i) {
    const std::string name = fmt::format("layers.{}.", i);
    Layer layer;
    layer.attention_norm = builder.norm(name + "attention_norm");
    layer.query = builder.matrix(name + "attention.query", m.hidden, m.hidden, deviation, m.bias);
    layer.key = builder.matrix(name + "attention.key", kv, m.hidden, deviation, m.bias);
    layer.value = builder.matrix(name + "attention.value", kv, m.hidden, deviation, m.bias);
    layer.output = builder.matrix(name + "attention.output", m.hidden, m.hidden, residual, m.bias);
    layer.mlp_norm = builder.norm(name + "mlp_norm");
    if (m.activation == Activation::kSwiglu) {
      layer.gate = builder.matrix(name + "mlp.gate", m.ffn, m.hidden, deviation, m.bias);
    }
    layer.up = builder.matrix(name + "mlp.up", m.ffn, m.hidden, deviation, m.bias);
    layer.down = builder.matrix(name + "mlp.down", m.hidden, m.ffn, residual, m.bias);
    module.layers_.push_back(layer);
  }
  if (slice.head) {
    module.norm_ = builder.norm("norm");
    module.head_ = m.tied_embeddings
                       ? module.embedding_
                       : builder.matrix("head", m.vocabulary, m.hidden, deviation, false);
  }
  module.tables_ = attention_tables(module.attention_shape(0),
                                    m.positions == Positions::kRotary ? m.rope_theta : 0, type);
  return module;
}

at::Tensor StageModule::apply(const Affine& affine, const at::Tensor& x,
                              WeightGradients* gradients) const {
  const at::Tensor bias = affine.bias == kNone ? at::Tensor() : value(affine.bias);
  if (gradients) return linear(x, value(affine.weight), bias, *gradients);
  return bias.defined() ? at::linear(x, value(affine.weight), bias)
                        : at::linear(x, value(affine.weight));
}

at::Tensor StageModule::normalise(const Affine& affine, const at::Tensor& x) const {
  if (model_.norm == Norm::kRms) return rms_norm(x, value(affine.weight), model_.norm_epsilon);
  return at::layer_norm(x, {model_.hidden}, value(affine.weight), value(affine.bias),
                        model_.norm_epsilon);
}

AttentionShape StageModule::attention_shape(int64_t rows) const {
  return {.samples = rows / model_.sequence,
          .sequence = model_.sequence,
          .heads = model_.heads,
          .kv_heads = model_.kv_heads,
          .head_size = model_.head_size()};
}

at::Tensor StageModule::run_layer(const Layer& layer, const at::Tensor& x,
                                  WeightGradients* gradients) const {
  const auto times = [&](const at::Tensor& in, const Affine& affine) {
    return apply(affine, in, gradients);
  };
  const at::Tensor normed = normalise(layer.attention_norm, x);
  const at::Tensor mixed =
      causal_attention(attention_shape(x.size(0)), tables_, times(normed, layer.query),
                       times(normed, layer.key), times(normed, layer.value));
  const at::Tensor attended = x + times(mixed, layer.output);

  const at::Tensor again = normalise(layer.mlp_norm, attended);
  const at::Tensor wide = model_.activation == Activation::kSwiglu
                              ? swiglu(times(again, layer.gate), times(again, layer.up))
                              : at::gelu(times(again, layer.up), "tanh");  // GPT-2's
  return attended + times(wide, layer.down);
}

at::Tensor StageModule::forward(const at::Tensor& input, WeightGradients* gradients) const {
  at::Tensor x = input;
  if (embedding_.weight != kNone) {
    x = at::embedding(value(embedding_.weight), input);
    if (positions_.weight != kNone) x = x + value(positions_.weight);
    x = x.view({-1, model_.hidden});
  }
  for (const Layer& layer : layers_) x = run_layer(layer, x, gradients);
  if (head_.weight != kNone) x = apply(head_, normalise(norm_, x), gradients);
  return x;
}

at::Tensor StageModule::loss(const at::Tensor& logits, const at::Tensor& targets) {
  return at::cross_entropy_loss(logits, targets);
}

}  // namespace tombolo::train
