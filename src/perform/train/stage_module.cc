#include "perform/train/stage_module.h"

#include <cmath>

#include "base/random.h"
#include "perform/train/context_attention.h"
#include "perform/train/mixture_of_experts.h"
#include "spec/layout/divisions.h"

namespace tombolo::train {
namespace {

using model::Activation;
using model::Norm;
using model::Positions;

Status check_shape(const model::Model& m) {
  if (const std::string departure = model::departure(m); !departure.empty()) {
    return unusable(
        fmt::format("model.{}: such models can be predicted, not trained yet", departure),
        "a model without it, or device = \"emulated:...\"");
  }
  if (m.positions == Positions::kRotary && m.head_size() % 2 != 0) {
    return unusable(fmt::format("model.positions = \"rope\": heads of {} numbers are odd, and a "
                                "rotation turns pairs",
                                m.head_size()),
                    "an even hidden / heads or head_dim, or positions = \"learned\"");
  }
  return {};
}

}  // namespace

namespace {

// Of the first values (stage_module.h).
struct Deviations {
  explicit Deviations(const model::Model& m)
      : matrix(1 / std::sqrt(3.0 * static_cast<double>(m.hidden))),
        residual(matrix / std::sqrt(2.0 * static_cast<double>(m.layers))),
        // A tied embedding starts as the head does, or the first logits would be far from even.
        embedding(m.tied_embeddings ? matrix : 0.1) {}
  double matrix, residual, embedding;
};

}  // namespace

// Draws the parameters one after the other.
class StageModule::Builder {
 public:
  Builder(StageModule& module, std::optional<uint64_t> seed, at::ScalarType type)
      : module_(module), seed_(seed), type_(type) {}

  Affine matrix(const std::string& name, int64_t rows, int64_t columns, double deviation,
                bool bias) {
    Affine affine{add(name + ".weight", values(name, rows, columns, deviation), true), kNone};
    if (bias) affine.bias = add(name + ".bias", at::zeros({rows}, type_), false);
    return affine;
  }

  Affine copy(Affine affine) {
    module_.parameters_[static_cast<size_t>(affine.weight)].copy = true;
    return affine;
  }

  Affine norm(const std::string& name, int64_t width) {
    const bool offset = module_.model_.unit_offset_norms.value_or(false);
    const at::Tensor start = offset ? at::zeros({width}, type_) : at::ones({width}, type_);
    Affine affine{add(name + ".weight", start, false), kNone};
    if (module_.model_.norm == Norm::kLayer) {
      affine.bias = add(name + ".bias", at::zeros({width}, type_), false);
    }
    return affine;
  }

  Affine embedding(const Deviations& deviations) {
    const model::Model& m = module_.model_;
    return matrix("embedding", m.vocabulary, m.hidden, deviations.embedding, false);
  }

  Layer layer(int64_t index, const Deviations& d) {
    const model::Model& m = module_.model_;
    const std::string name = fmt::format("layers.{}.", index);
    const bool before = m.input_norms.value_or(true), after = m.output_norms.value_or(false);
    const int64_t wide = m.attention_width(), kv = m.kv_heads * m.head_size();
    const bool qkv_bias = m.qkv_bias.value_or(m.bias), mlp_bias = m.mlp_bias.value_or(m.bias);
    Layer layer;
    layer.first = static_cast<int>(module_.parameters_.size());
    layer.rotates = !m.nope_interval || (index + 1) % *m.nope_interval != 0;
    layer.windowed = m.is_windowed(index);
    if (before) layer.attention_norm = norm(name + "attention_norm", m.hidden);
    layer.query = matrix(name + "attention.query", wide, m.hidden, d.matrix, qkv_bias);
    layer.key = matrix(name + "attention.key", kv, m.hidden, d.matrix, qkv_bias);
    layer.value = matrix(name + "attention.value", kv, m.hidden, d.matrix, qkv_bias);
    if (const bool whole = m.whole_qk_norm.value_or(false); whole || m.qk_norm.value_or(false)) {
      layer.query_norm = norm(name + "attention.query_norm", whole ? wide : m.head_size());
      layer.key_norm = norm(name + "attention.key_norm", whole ? kv : m.head_size());
    }
    layer.output = matrix(name + "attention.output", m.hidden, wide, d.residual,
                          m.output_bias.value_or(m.bias));
    if (after) layer.attention_output_norm = norm(name + "attention_output_norm", m.hidden);
    if (before) layer.mlp_norm = norm(name + "mlp_norm", m.hidden);
    if (count_layers(m, {.first_layer = index, .layers = 1}).experts > 0) {
      mixture(layer, name + "mlp.", d);
    } else {
      layer.mlp = mlp(name + "mlp.", m.ffn, mlp_bias, d);
    }
    if (after) layer.mlp_output_norm = norm(name + "mlp_output_norm", m.hidden);
    return layer;
  }

 private:
  Mlp mlp(const std::string& name, int64_t width, bool bias, const Deviations& d) {
    const int64_t hidden = module_.model_.hidden;
    Mlp out;
    if (module_.model_.gated_mlp()) out.gate = matrix(name + "gate", width, hidden, d.matrix, bias);
    out.up = matrix(name + "up", width, hidden, d.matrix, bias);
    out.down = matrix(name + "down", hidden, width, d.residual, bias);
    return out;
  }

  void mixture(Layer& layer, const std::string& name, const Deviations& d) {
    const model::Model& m = module_.model_;
    const model::Experts& e = *m.experts;
    layer.router = matrix(name + "router", e.count, m.hidden, d.matrix, false);
    const ExpertRange own =
        module_.exchange_ ? module_.exchange_->own_experts() : ExpertRange{0, e.count};
    const size_t first = module_.parameters_.size();
    for (int64_t i = own.first; i < own.first + own.count; ++i)
      layer.experts.push_back(mlp(fmt::format("{}experts.{}.", name, i), e.ffn, false, d));
    for (size_t i = first; i < module_.parameters_.size(); ++i)
      module_.parameters_[i].of_expert = true;
    if (e.shared_ffn > 0) layer.shared = mlp(name + "shared.", e.shared_ffn, false, d);
    if (e.shared_gate)
      layer.shared_gate = matrix(name + "shared_gate", 1, m.hidden, d.matrix, false);
  }

  at::Tensor values(const std::string& name, int64_t rows, int64_t columns, double deviation) {
    if (!seed_) return at::zeros({rows, columns}, type_);
    Random random = Random(*seed_).stream("init/" + name + ".weight");
    at::Tensor values = at::empty({rows, columns}, type_);
    if (type_ == at::kDouble) {
      draw<double>(random, deviation, values);
    } else {
      draw<float>(random, deviation, values);
    }
    return values;
  }

  // Rounded one by one: an extra matrix of doubles would be twice its size.
  template <class Number>
  static void draw(Random& random, double deviation, at::Tensor& values) {
    Number* value = values.data_ptr<Number>();
    for (int64_t i = 0; i < values.numel(); ++i)
      value[i] = static_cast<Number>(deviation * random.normal());
  }

  int add(const std::string& name, const at::Tensor& values, bool decays) {
    at::Tensor leaf = values.to(type_);
    leaf.set_requires_grad(true);
    module_.parameters_.push_back({name, leaf, decays});
    return static_cast<int>(module_.parameters_.size()) - 1;
  }

  StageModule& module_;
  std::optional<uint64_t> seed_;
  at::ScalarType type_;
};

Result<StageModule> StageModule::create(const model::Model& m, const model::Slice& slice,
                                        std::optional<uint64_t> seed, at::ScalarType type,
                                        ExpertExchange* experts) {
  TRY(check_shape(m));
  StageModule module;
  module.model_ = m;
  module.exchange_ = experts;
  Builder builder(module, seed, type);
  const Deviations deviations(m);
  if (slice.embedding) {
    module.embedding_ = builder.embedding(deviations);
    if (m.positions == Positions::kLearned) {
      module.positions_ = builder.matrix("positions", m.positions_max.value_or(m.sequence),
                                         m.hidden, deviations.embedding, false);
    }
  }
  for (int64_t i = slice.first_layer; i < slice.first_layer + slice.layers; ++i) {
    module.layers_.push_back(builder.layer(i, deviations));
  }
  if (slice.head) {
    module.norm_ = builder.norm("norm", m.hidden);
    if (!m.tied_embeddings) {
      module.head_ = builder.matrix("head", m.vocabulary, m.hidden, deviations.matrix, false);
    } else {
      module.head_ =
          slice.embedding ? module.embedding_ : builder.copy(builder.embedding(deviations));
    }
  }
  std::optional<RotaryPositions> rotary;
  if (m.positions == Positions::kRotary) rotary = RotaryPositions{m.rope_theta, m.rope_scaling};
  module.tables_ = attention_tables(module.attention_shape(0), rotary, type);
  if (m.has_windows()) module.window_mask_ = causal_mask(m.sequence, m.attention_window, type);
  return module;
}

template <class Call>
void StageModule::for_each_mlp(const Layer& layer, const Call& call) {
  call(layer.mlp);
  for (const Mlp& expert : layer.experts) call(expert);
  call(layer.shared);
}

// Which part of each parameter a shard has, as Megatron-LM cuts them: queries, keys, values, gate and up by
// rows, output and down by columns, embedding and head by the vocabulary. All of an expert's tokens meet all
// of its tensor group, each with its part of the expert.
class StageModule::Cutter {
 public:
  Cutter(const StageModule& module, const ShardPlace& place)
      : module_(module),
        tensor_(place.tensor()),
        parts_(place.degrees().tensor),
        rows_apart_(place.cuts_rows()),
        cuts_(module.parameters_.size()) {}

  std::vector<ParameterCut> cuts() {
    const model::Model& m = module_.model_;
    const auto by = [&](const Affine& affine, int64_t axis, kernels::Share share) {
      if (affine.weight == kNone) return;
      at(affine.weight) = cut(axis, share);
      if (affine.bias == kNone) return;
      at(affine.bias) = axis == 0 ? cut(0, share) : whole(rows_apart_);
    };
    const auto all = [&](const Affine& affine, bool in_parts) {
      for (const int each : {affine.weight, affine.bias})
        if (each != kNone) at(each) = whole(in_parts);
    };
    const kernels::Share heads = of(m.heads, m.head_size());
    const kernels::Share kv = kv_heads(m);
    by(module_.embedding_, 0, of(m.vocabulary, 1));
    by(module_.head_, 0, of(m.vocabulary, 1));
    all(module_.positions_, rows_apart_);
    all(module_.norm_, rows_apart_);
    for (const Layer& layer : module_.layers_) {
      for (const Affine& each : {layer.attention_norm, layer.attention_output_norm, layer.mlp_norm,
                                 layer.mlp_output_norm})
        all(each, rows_apart_);
      by(layer.query, 0, heads);
      by(layer.key, 0, kv);
      by(layer.value, 0, kv);
      by(layer.output, 1, heads);
      for_each_mlp(layer, [&](const Mlp& mlp) {
        if (mlp.up.weight == kNone) return;
        const kernels::Share width = of(module_.value(mlp.up.weight).size(0), 1);
        by(mlp.gate, 0, width);
        by(mlp.up, 0, width);
        by(mlp.down, 1, width);
      });
      all(layer.router, parts_ > 1);
      all(layer.shared_gate, parts_ > 1);
      if (m.whole_qk_norm.value_or(false)) {
        by(layer.query_norm, 0, heads);
        by(layer.key_norm, 0, kv);
      } else {
        all(layer.query_norm, parts_ > 1);
        all(layer.key_norm, parts_ > 1);
      }
    }
    return std::move(cuts_);
  }

 private:
  ParameterCut& at(int parameter) { return cuts_[static_cast<size_t>(parameter)]; }
  kernels::Share of(int64_t count, int64_t each) const {
    const auto share = kernels::share_of(count, tensor_, parts_);
    return {share.first * each, share.count * each};
  }
  // Where there are fewer than shards, several have the same.
  kernels::Share kv_heads(const model::Model& m) const {
    if (m.kv_heads >= parts_) return of(m.kv_heads, m.head_size());
    return {tensor_ * m.kv_heads / parts_ * m.head_size(), m.head_size()};
  }
  ParameterCut cut(int64_t axis, kernels::Share share) const {
    return {axis, share.first, share.count, false, true};
  }
  static ParameterCut whole(bool in_parts) { return {.in_parts = in_parts}; }

  const StageModule& module_;
  const int64_t tensor_, parts_;
  const bool rows_apart_;
  std::vector<ParameterCut> cuts_;
};

namespace {

Status check_cut(const model::Model& m, const ShardDegrees& degrees) {
  const auto refuse = [](const char* key, int64_t degree, const std::string& why) -> Status {
    if (why.empty()) return {};
    return unusable(fmt::format("parallelism.{} = {}: {}", key, degree, why),
                    fmt::format("{} = 1", key));
  };
  std::string why = layout::why_not_tensor(m, degrees.tensor, {degrees.sequence_parallel, true});
  if (why.empty() && m.vocabulary < degrees.tensor)
    why = fmt::format("is more than vocabulary = {}", m.vocabulary);
  const bool norms_rows = m.whole_qk_norm.value_or(false);
  if (why.empty() && degrees.tensor > 1 && norms_rows && m.kv_heads < degrees.tensor)
    why = fmt::format("whole_qk_norm wants kv_heads = {} cut without a rest", m.kv_heads);
  if (why.empty() && degrees.tensor > 1 && norms_rows && m.norm != Norm::kRms)
    why = "whole_qk_norm is cut where norm = \"rms\" alone";
  TRY(refuse("tensor", degrees.tensor, why));
  return refuse("context", degrees.context, layout::why_not_context(m, degrees.context));
}

}  // namespace

StageModule StageModule::of_strand(ExpertExchange* experts) const {
  StageModule out = *this;
  out.exchange_ = experts;
  return out;
}

Result<StageModule> StageModule::shard(const ShardPlace& place, int64_t samples) const {
  const ShardDegrees& degrees = place.degrees();
  TRY(check_cut(model_, degrees));
  StageModule out = *this;
  out.place_ = &place;
  out.samples_ = samples;
  out.cuts_ = Cutter(*this, place).cuts();
  out.model_.head_dim = model_.head_size();
  out.model_.heads = model_.heads / degrees.tensor;
  out.model_.kv_heads = std::max<int64_t>(1, model_.kv_heads / degrees.tensor);
  out.model_.ffn = model_.ffn / degrees.tensor;
  const at::NoGradGuard no_gradients;
  for (size_t i = 0; i < cuts_.size(); ++i) CHECK(cuts_[i].whole, "a shard of a shard");
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const ParameterCut& cut = out.cuts_[i];
    const auto part = [&](const at::Tensor& all) {
      if (!all.defined()) return at::Tensor();
      return (cut.whole ? all : all.narrow(cut.axis, cut.first, cut.count)).detach();
    };
    Parameter& own = out.parameters_[i];
    own.value = part(parameters_[i].value);
    own.half = part(parameters_[i].half);
    // Of what all compute alike, the first of a tensor group does so.
    own.value.set_requires_grad(!cut.whole || cut.in_parts || place.tensor() == 0);
  }
  if (degrees.context > 1 && tables_.cosine.defined()) {
    out.tables_.cosine = take_rows(tables_.cosine, place.own_tokens(model_.sequence));
    out.tables_.sine = take_rows(tables_.sine, place.own_tokens(model_.sequence));
  }
  return out;
}

void StageModule::compute_in_bf16() {
  activation_type_ = at::kBFloat16;
  const auto copy = [&](const Affine& affine) {
    if (affine.weight == kNone) return;
    Parameter& parameter = parameters_[static_cast<size_t>(affine.weight)];
    parameter.half = at::empty(parameter.value.sizes(), at::kBFloat16);
  };
  for (const Layer& layer : layers_) {
    for (const Affine& each :
         {layer.query, layer.key, layer.value, layer.output, layer.router, layer.shared_gate})
      copy(each);
    for_each_mlp(layer, [&](const Mlp& mlp) {
      for (const Affine& each : {mlp.gate, mlp.up, mlp.down}) copy(each);
    });
  }
  copy(head_);
  refresh_copies();
}

void StageModule::refresh_copies() {
  for (size_t i = 0; i < parameters_.size(); ++i) refresh_copy(i);
}

void StageModule::refresh_copy(size_t index) {
  const at::NoGradGuard no_gradients;
  Parameter& parameter = parameters_[index];
  if (parameter.half.defined() && parameter.has_value()) parameter.half.copy_(parameter.value);
}

// The embedding is looked up in its values.
bool StageModule::reads_copy_alone(size_t index) const {
  return parameters_[index].half.defined() && static_cast<int>(index) != embedding_.weight;
}

void StageModule::leave_to_another(size_t index) {
  Parameter& parameter = parameters_[index];
  parameter.elsewhere = true;
  if (!reads_copy_alone(index)) return;
  parameter.value = at::zeros({1}, parameter.value.scalar_type()).expand(parameter.value.sizes());
  parameter.value.set_requires_grad(true);
}

at::Tensor StageModule::apply(const Affine& affine, const at::Tensor& x,
                              WeightGradients* gradients) const {
  const Parameter& weight = parameters_[static_cast<size_t>(affine.weight)];
  const at::Tensor& used = weight.half.defined() ? weight.half : weight.value;
  const at::Tensor bias = affine.bias == kNone ? at::Tensor() : value(affine.bias);
  if (gradients) return linear(x, {weight.value, used}, bias, *gradients);
  return bias.defined() ? at::linear(x, used, bias.to(x.scalar_type())) : at::linear(x, used);
}

// x as it is where the model has no such norm.
at::Tensor StageModule::normalise(const Affine& affine, const at::Tensor& x) const {
  if (affine.weight == kNone) return x;
  if (model_.norm == Norm::kRms) {
    const at::Tensor& weight = value(affine.weight);
    const bool offset = model_.unit_offset_norms.value_or(false);
    return rms_norm(x, offset ? weight + 1 : weight, model_.norm_epsilon);
  }
  const at::Tensor wide = x.scalar_type() == at::kBFloat16 ? x.to(at::kFloat) : x;
  return at::layer_norm(wide, {x.size(-1)}, value(affine.weight), value(affine.bias),
                        model_.norm_epsilon)
      .to(x.scalar_type());
}

// Each head of each row separately, or all of a row together.
at::Tensor StageModule::normalise_heads(const Affine& affine, const at::Tensor& x) const {
  if (place_ && affine.weight != kNone && model_.whole_qk_norm.value_or(false))
    return normalise_parts(affine, x);
  if (affine.weight == kNone || model_.whole_qk_norm.value_or(false)) return normalise(affine, x);
  return normalise(affine, x.view({-1, model_.head_size()})).view(x.sizes());
}

// Rows whose columns a tensor group shares out.
at::Tensor StageModule::normalise_parts(const Affine& affine, const at::Tensor& x) const {
  const at::Tensor wide = x.scalar_type() == at::kBFloat16 ? x.to(at::kFloat) : x;
  const int64_t columns = x.size(1) * place_->degrees().tensor;
  const at::Tensor squares = sum_for_all(*place_, wide.square().sum(-1, true));
  const at::Tensor weight =
      model_.unit_offset_norms.value_or(false) ? value(affine.weight) + 1 : value(affine.weight);
  return (wide * at::rsqrt(squares / columns + model_.norm_epsilon) * weight).to(x.scalar_type());
}

at::Tensor StageModule::enter(const at::Tensor& x) const {
  if (!place_) return x;
  return enter_products(*place_, x, samples_ * model_.sequence / place_->degrees().context);
}

at::Tensor StageModule::leave(const at::Tensor& partial) const {
  return place_ ? leave_products(*place_, partial) : partial;
}

// A product that a tensor group shares out by columns: shards make parts of a sum, and the bias is added once,
// to the sum.
at::Tensor StageModule::apply_part(const Affine& affine, const at::Tensor& x,
                                   WeightGradients* gradients) const {
  return apply(place_ ? Affine{affine.weight, kNone} : affine, x, gradients);
}

// What ends attention and MLP: bias of `product`, norm and residual.
at::Tensor StageModule::add_block(const at::Tensor& residual, const Affine& product,
                                  const Affine& norm, const at::Tensor& sum) const {
  return residual + normalise(norm, adds_bias_late(product)
                                        ? sum + value(product.bias).to(sum.scalar_type())
                                        : sum);
}

at::Tensor StageModule::mix(const Layer& layer, const at::Tensor& query, const at::Tensor& key,
                            const at::Tensor& value) const {
  if (!place_ || place_->degrees().context == 1)
    return causal_attention(attention_shape(query.size(0)), tables_of(layer), query, key, value);
  AttentionShape shape = attention_shape(query.size(0));
  shape.samples = samples_;
  return context_attention(*place_, shape, tables_of(layer), query, key, value);
}

AttentionShape StageModule::attention_shape(int64_t rows) const {
  return {.samples = rows / model_.sequence,
          .sequence = model_.sequence,
          .heads = model_.heads,
          .kv_heads = model_.kv_heads,
          .head_size = model_.head_size(),
          .query_scalar = model_.query_scalar,
          .softcap = model_.attention_softcap};
}

AttentionTables StageModule::tables_of(const Layer& layer) const {
  AttentionTables tables = tables_;
  if (!layer.rotates) tables.cosine = tables.sine = at::Tensor();
  if (layer.windowed && window_mask_.defined()) tables.mask = window_mask_;
  return tables;
}

// Of queries, keys and values as products make them.
at::Tensor StageModule::attend_heads(const Layer& layer, const at::Tensor& query,
                                     const at::Tensor& key, const at::Tensor& value) const {
  return mix(layer, normalise_heads(layer.query_norm, query), normalise_heads(layer.key_norm, key),
             value);
}

// In which order products stand decides in which order the gradients of what they read are added, the last one
// first: LayerPass does as this does.
at::Tensor StageModule::run_layer(const Layer& layer, const at::Tensor& x,
                                  WeightGradients* gradients) const {
  const at::Tensor normed = enter(normalise(layer.attention_norm, x));
  const at::Tensor value = apply(layer.value, normed, gradients);
  const at::Tensor key = apply(layer.key, normed, gradients);
  const at::Tensor query = apply(layer.query, normed, gradients);
  return after_attention(layer, x, attend_heads(layer, query, key, value), gradients);
}

at::Tensor StageModule::after_attention(const Layer& layer, const at::Tensor& x,
                                        const at::Tensor& mixed, WeightGradients* gradients) const {
  const at::Tensor attended = add_block(x, layer.output, layer.attention_output_norm,
                                        leave(apply_part(layer.output, mixed, gradients)));
  const at::Tensor again = enter(normalise(layer.mlp_norm, attended));
  const at::Tensor made =
      layer.router.weight == kNone
          ? apply_part(layer.mlp.down, activate(layer.mlp, again, gradients), gradients)
          : mix_experts(layer, again, gradients);
  return add_block(attended, layer.mlp.down, layer.mlp_output_norm, leave(made));
}

// `gate`: where the model has some.
at::Tensor StageModule::activation(const at::Tensor& up, const at::Tensor& gate) const {
  if (!model_.gated_mlp()) return at::gelu(up, "tanh");  // GPT-2's
  return model_.activation == Activation::kGeglu ? geglu(gate, up) : swiglu(gate, up);
}

// What is inside of an MLP or expert.
at::Tensor StageModule::activate(const Mlp& mlp, const at::Tensor& x,
                                 WeightGradients* gradients) const {
  const at::Tensor up = apply(mlp.up, x, gradients);
  return activation(up, model_.gated_mlp() ? apply(mlp.gate, x, gradients) : at::Tensor());
}

// Of a tensor group each returns a part of the sum. An expert that gets no row computes with none, so that all
// parameters have gradients.
at::Tensor StageModule::mix_experts(const Layer& layer, const at::Tensor& x,
                                    WeightGradients* gradients) const {
  const Routing routing = route(apply(layer.router, x, gradients), model_.experts->per_token);
  const int32_t shard = place_ ? place_->shard : 0;
  ExpertRows here{copies_by_expert(routing, x), routing.counts, {}};
  if (exchange_) here = to_experts(*exchange_, shard, here.rows, here.counts);
  const std::vector<at::Tensor> of_experts = here.rows.split_with_sizes(here.counts);
  std::vector<at::Tensor> made;
  made.reserve(of_experts.size());
  for (size_t i = 0; i < of_experts.size(); ++i) {
    const Mlp& expert = layer.experts[i];
    made.push_back(apply(expert.down, activate(expert, of_experts[i], gradients), gradients));
  }
  at::Tensor out = at::cat(made);
  if (exchange_) out = from_experts(*exchange_, shard, out, here.route);
  out = weighted_sum(routing, out);
  if (layer.shared.up.weight == kNone) return out;
  at::Tensor shared = apply(layer.shared.down, activate(layer.shared, x, gradients), gradients);
  if (layer.shared_gate.weight != kNone)
    shared = shared * at::sigmoid(apply(layer.shared_gate, x, gradients));
  return out + shared;
}

StageModule::Projected StageModule::project(size_t index, const at::Tensor& x) const {
  const Layer& layer = layers_[index];
  const at::Tensor normed = normalise(layer.attention_norm, x);
  return {normalise_heads(layer.query_norm, apply(layer.query, normed, nullptr)),
          normalise_heads(layer.key_norm, apply(layer.key, normed, nullptr)),
          apply(layer.value, normed, nullptr)};
}

at::Tensor StageModule::finish_layer(size_t index, const at::Tensor& x,
                                     const at::Tensor& mixed) const {
  return after_attention(layers_[index], x, mixed, nullptr);
}

at::Tensor StageModule::head(const at::Tensor& x, WeightGradients* gradients) const {
  const at::Tensor out = apply(head_, enter(normalise(norm_, x)), gradients);
  return model_.logit_softcap ? soft_cap(out, *model_.logit_softcap) : out;
}

at::Tensor StageModule::logits(const at::Tensor& x) const { return head(x, nullptr); }

at::Tensor StageModule::embed(const at::Tensor& tokens, int64_t first) const {
  at::Tensor x = at::embedding(value(embedding_.weight), tokens);
  if (positions_.weight != kNone) {
    x = x + value(positions_.weight).slice(0, first, first + tokens.size(-1));
  }
  return scaled(x.view({-1, model_.hidden}));
}

// Each looks up what it has; of a token the others add zeros.
at::Tensor StageModule::embed_shard(const at::Tensor& tokens) const {
  const ParameterCut& cut = cuts_[static_cast<size_t>(embedding_.weight)];
  const at::Tensor here = at::logical_and(tokens >= cut.first, tokens < cut.first + cut.count);
  const at::Tensor index = at::where(here, tokens - cut.first, at::zeros_like(tokens));
  const at::Tensor& rows = value(embedding_.weight);
  const at::Tensor found = at::embedding(rows, index) * here.unsqueeze(-1).to(rows.scalar_type());
  at::Tensor x = leave_products(*place_, found.view({-1, model_.hidden}));
  if (positions_.weight != kNone) {
    const at::Tensor own = take_rows(value(positions_.weight), place_->own_tokens(model_.sequence));
    const at::Tensor of_all = own.repeat({tokens.size(0), 1});
    x = x + (place_->cuts_rows() ? take_rows(of_all, place_->own_rows(of_all.size(0))) : of_all);
  }
  return scaled(x);
}

at::Tensor StageModule::scaled(at::Tensor x) const {
  if (activation_type_ == at::kBFloat16) x = x.to(at::kBFloat16);
  if (!model_.scaled_embedding.value_or(false)) return x;
  // The factor is rounded as activations are, and the product once more, as transformers does.
  const double factor = std::sqrt(static_cast<double>(model_.hidden));
  return x * at::full({}, factor, x.options());
}

at::Tensor StageModule::forward(const at::Tensor& input, WeightGradients* gradients,
                                const Need& need) const {
  const auto needs = [&](int parameter) {
    if (!need) return;
    if (!place_ || place_->shard == 0) need(static_cast<size_t>(parameter));
    if (place_) place_->meet();
  };
  at::Tensor x = input;
  if (embedding_.weight != kNone) {
    needs(embedding_.weight);
    x = place_ ? embed_shard(input) : embed(input, 0);
  }
  for (const Layer& layer : layers_) {
    needs(layer.first);
    x = run_layer(layer, x, gradients);
  }
  if (head_.weight != kNone) {
    needs(norm_.weight);
    x = head(x, gradients);
  }
  return x;
}

at::Tensor StageModule::loss(const at::Tensor& logits, const at::Tensor& targets) {
  const bool narrow = logits.scalar_type() == at::kBFloat16;
  return at::cross_entropy_loss(narrow ? logits.to(at::kFloat) : logits, targets);
}

at::Tensor StageModule::shard_loss(const at::Tensor& logits, const at::Tensor& targets) const {
  const ParameterCut& cut = cuts_[static_cast<size_t>(head_.weight)];
  return loss_of_shards(*place_, logits, targets, cut.first, samples_ * model_.sequence);
}

}  // namespace tombolo::train
