#include "predict/cost/device_memory.h"

#include <algorithm>

#include "base/check.h"

namespace tombolo::cost {
namespace {

using model::Activation;
using model::LayerCounts;
using model::Model;
using model::Recompute;
using model::Slice;

// Bytes per token. Tensor parallelism divides what is inside attention and MLP; what is outside is
// divided by sequence parallelism only, and some stacks keep the inputs of both whole.
struct PerToken {
  double inside = 0;
  double outside = 0;
  double whole = 0;

  PerToken operator+(PerToken o) const {
    return {inside + o.inside, outside + o.outside, whole + o.whole};
  }
  PerToken operator*(double k) const { return {inside * k, outside * k, whole * k}; }
};

class Layers {
 public:
  Layers(const Model& model, const StackConstants& stack, double element)
      : m_(model), stack_(stack), e_(element), h_(real(model.hidden)) {}

  // What the backward pass of a layer reads.
  PerToken kept(bool experts, Recompute recompute) const {
    if (recompute == Recompute::kFull) return {0, e_ * h_};
    const bool operators =
        recompute == Recompute::kSelective && stack_.selective == SelectiveRecompute::kOperators;
    if (operators) return half_of_the_products(experts);
    return attention(recompute) + (experts ? mixture() : mlp());
  }

  // Gradients that are alive at once in a backward pass: of the widest tensor and its input.
  PerToken gradients(bool experts) const {
    const double width = experts ? routed_width() + shared_width() : real(m_.ffn);
    const double wide = e_ * width * real(model::mlp_matrices(m_));
    return {wide, e_ * h_ * 2};
  }

 private:
  // What attention or MLP reads: the result of a norm.
  PerToken input() const {
    return stack_.gathered_inputs ? PerToken{0, 0, e_ * h_} : PerToken{0, e_ * h_, 0};
  }

  double mask() const { return stack_.dropout ? h_ : 0; }

  double routed_width() const { return real(m_.experts->per_token * m_.experts->ffn); }
  double shared_width() const { return real(m_.experts->shared_ffn); }

  // Queries, keys, values and the output of attention, in elements.
  double heads_width() const {
    if (m_.latent_attention) {
      const auto& l = *m_.latent_attention;
      // Values are a view of what the compressed keys and values are expanded to.
      return real(m_.heads * (2 * (l.nope_dim + l.rope_dim) + l.nope_dim + 2 * l.value_dim));
    }
    return real(2 * m_.attention_width() + 2 * m_.kv_heads * m_.head_size());
  }

  PerToken attention(Recompute recompute) const {
    PerToken bytes = PerToken{e_ * heads_width(), e_ * h_ + mask()} + input();
    if (m_.latent_attention) {
      const auto& l = *m_.latent_attention;  // compressed, and again after their norms
      bytes.outside += e_ * real(2 * l.query_rank + 2 * l.kv_rank + l.rope_dim);
    }
    const double heads = real(m_.heads);
    if (stack_.attention == Attention::kFlash) {
      bytes.inside += 4 * heads;  // the sum of each row's softmax
    } else if (recompute == Recompute::kNone) {
      // Softmax; with dropout its mask and its result as well.
      bytes.inside += heads * real(m_.sequence) * (stack_.dropout ? 2 * e_ + 1 : e_);
    }
    return bytes;
  }

  // Inner tensors that backward reads: gate, up and their product, or before and after GELU.
  double inner() const { return m_.activation == Activation::kSwiglu ? 3 : 2; }

  PerToken mlp() const { return PerToken{e_ * inner() * real(m_.ffn), e_ * h_ + mask()} + input(); }

  PerToken mixture() const {
    const double copies = real(m_.experts->per_token) * h_;
    const double scores = 8 * real(m_.experts->count);  // in float32, and their softmax
    return PerToken{e_ * inner() * (routed_width() + shared_width()), e_ * (h_ + copies) + scores} +
           input();
  }

  // The products in their order are queries, keys, values, projection, gate, up, down: the first,
  // third and fifth are kept, with the output of attention and the layer's input. A compiled layer
  // drops the seventh, which no backward pass reads.
  PerToken half_of_the_products(bool experts) const {
    const double width = experts ? routed_width() + shared_width() : real(m_.ffn);
    const double copies = experts ? real(m_.experts->per_token) * h_ : 0;
    const double keys =
        m_.latent_attention
            ? real(m_.heads * (m_.latent_attention->nope_dim + m_.latent_attention->rope_dim))
            : real(m_.kv_heads * m_.head_size());
    return {e_ * (heads_width() - keys + width), e_ * (h_ + copies)};
  }

  const Model& m_;
  const StackConstants& stack_;
  double e_;
  double h_;
};

// Parameters of a stage that a device holds before ZeRO.
struct Held {
  double dense = 0;
  double experts = 0;
};

Held held(const Model& m, const Configuration& c, const Slice& slice) {
  const double experts = real(model::expert_parameters(m, slice));
  const double dense = real(model::parameters(m, slice)) - experts;
  // Tensor parallelism leaves whole: learned positions, and what compresses for latent attention.
  double whole = 0;
  if (slice.embedding && m.positions == model::Positions::kLearned) {
    whole += real(m.positions_max.value_or(m.sequence) * m.hidden);
  }
  if (m.latent_attention) {
    const auto& l = *m.latent_attention;
    whole += real(slice.layers * m.hidden * (l.query_rank + l.kv_rank + l.rope_dim));
  }
  const double t = real(c.tensor);
  return {(dense - whole) / t + whole, experts / (t * real(c.expert))};
}

// Forward passes of a stage's chunks of layers that wait for their backward pass: with 1F1B one per
// stage from here to the last; interleaved, the warm-up of Megatron-LM and one more.
double waiting_chunks(const Configuration& c, int64_t stage) {
  const int64_t all = std::max<int64_t>(1, c.micro_batches()) * c.virtual_stages;
  if (c.gpipe) return real(all);
  const int64_t after = c.pipeline - 1 - stage;
  const int64_t waiting =
      c.virtual_stages == 1 ? after + 1 : 2 * after + (c.virtual_stages - 1) * c.pipeline + 1;
  return real(std::min(all, waiting));
}

struct ElementBytes {
  double parameter;
  double gradient;
};

// The workspace, and what a stage needs of its layers one after the other: a stack's buffers, what
// ZeRO 3 gathers.
Bytes with_layers_at_work(Bytes workspace, const Model& m, const Configuration& c,
                          const StackConstants& stack, const Slice& slice,
                          const ElementBytes& bytes) {
  // One layer, without and with its routed experts, and the ends: embedding and head.
  Slice ends = slice;
  ends.layers = 0;
  const Held mine = held(m, c, slice), mine_at_ends = held(m, c, ends);
  const double layers_here = std::max<double>(1, real(slice.layers));
  const double dense_layer = (mine.dense - mine_at_ends.dense) / layers_here;
  workspace += Bytes{stack.layer_buffers * dense_layer};
  if (c.zero < 3) return workspace;
  // Gathered by ZeRO 3: the layer at work and the next one, and the ends, which stay, with the
  // gradients of a layer. A pipeline gathers once per iteration, and its micro-batches sum whole
  // gradients.
  if (c.pipeline > 1) {
    return workspace + Bytes{(bytes.parameter + bytes.gradient) * (mine.dense + mine.experts)};
  }
  const double layer_at_work = dense_layer + mine.experts / layers_here;
  return workspace + Bytes{bytes.parameter * (2 * layer_at_work + mine_at_ends.dense) +
                           bytes.gradient * layer_at_work};
}

}  // namespace

Slice stage_slice(const Model& m, int64_t pipeline, int64_t stage) {
  CHECK(stage >= 0 && stage < pipeline, "stage {} of {}", stage, pipeline);
  Slice slice{.embedding = stage == 0, .head = stage == pipeline - 1};
  const int64_t slots = m.layers + 2;
  if (pipeline > 1 && m.layers % pipeline != 0 && slots % pipeline == 0) {
    const int64_t each = slots / pipeline;
    slice.layers = each - (slice.embedding ? 1 : 0) - (slice.head ? 1 : 0);
    slice.first_layer = stage == 0 ? 0 : stage * each - 1;
    return slice;
  }
  const int64_t more = m.layers % pipeline;
  slice.layers = m.layers / pipeline + (stage < more ? 1 : 0);
  slice.first_layer = stage * (m.layers / pipeline) + std::min(stage, more);
  return slice;
}

DeviceMemory stage_memory(const Model& m, const Configuration& c, const StackConstants& stack,
                          const MemoryInputs& inputs, int64_t stage) {
  return slice_memory(m, c, stack, inputs, stage_slice(m, c.pipeline, stage),
                      waiting_chunks(c, stage) / real(c.virtual_stages));
}

DeviceMemory slice_memory(const Model& m, const Configuration& c, const StackConstants& stack,
                          const MemoryInputs& inputs, const Slice& slice, double waiting) {
  CHECK(waiting >= 0 && inputs.element_bytes > 0, "{} forward passes of {} bytes a number wait",
        waiting, inputs.element_bytes);
  const LayerCounts counts = model::count_layers(m, slice);
  const double e = inputs.element_bytes;
  const double t = real(c.tensor);
  const double sequence = c.sequence_parallel ? t : 1;
  const double h = real(m.hidden);

  // State. Replicas are data x context; those of an expert are fewer by expert parallelism.
  const Held mine = held(m, c, slice);
  const double replicas = real(c.data * c.context);
  const double expert_replicas = std::max(1.0, replicas / real(c.expert));
  const auto bytes = [&](double per_parameter, int64_t zero) {
    const bool split = c.zero >= zero;
    return Bytes{per_parameter * (mine.dense / (split ? replicas : 1) +
                                  mine.experts / (split ? expert_replicas : 1))};
  };
  DeviceMemory memory;
  memory.parameters = bytes(stack.parameter_memory, 3);
  const double gradient_bytes = stack.gradient_memory + (inputs.bf16 ? stack.bf16_gradients : 0);
  memory.gradients = bytes(gradient_bytes, 2);
  const bool stated = inputs.state_bytes != MemoryInputs{}.state_bytes;
  memory.optimizer =
      bytes(stated ? std::max(0.0, inputs.state_bytes - stack.parameter_memory - gradient_bytes)
                   : stack.optimizer_memory,
            1);

  // Activations.
  const double tokens = real(c.micro_batch * m.sequence) / real(c.context);
  const auto on_device = [&](PerToken per_token) {
    return stack.activation_scale * tokens *
           (per_token.inside / t + per_token.outside / sequence + per_token.whole);
  };
  const Layers layers(m, stack, e);
  const double dense = real(counts.dense);
  const double experts = real(counts.experts);
  PerToken kept{0, stack.stage_outputs && !slice.head ? e * h : 0, 0};
  if (counts.dense > 0) kept = kept + layers.kept(false, c.recompute) * dense;
  if (counts.experts > 0) kept = kept + layers.kept(true, c.recompute) * experts;
  memory.activations = Bytes{on_device(kept) * waiting};

  // The largest of what is needed for a while: logits at the end of the forward pass; in a backward
  // pass what was dropped of a layer, and gradients.
  double layer = 0;
  for (const bool with_experts : {false, true}) {
    if ((with_experts ? counts.experts : counts.dense) == 0) continue;
    PerToken passing = layers.gradients(with_experts);
    if (c.recompute != Recompute::kNone) {
      passing = passing + layers.kept(with_experts, Recompute::kNone) +
                layers.kept(with_experts, c.recompute) * -1;
    }
    layer = std::max(layer, on_device(passing));
  }
  double logits = 0;
  if (slice.head) {
    logits = stack.activation_scale * tokens *
             (stack.logit_memory * real(m.vocabulary) / t + 2 * e * h / sequence);
  }
  memory.workspace = stack.workspace + Bytes{std::max(layer, logits)} +
                     Bytes{std::min(layer, logits) * stack.reserved};

  if (stack.layer_buffers > 0 || c.zero >= 3) {
    memory.workspace =
        with_layers_at_work(memory.workspace, m, c, stack, slice, {e, gradient_bytes});
  }
  return memory;
}

DeviceMemory device_memory(const Model& m, const Configuration& c, const StackConstants& stack,
                           const MemoryInputs& inputs) {
  DeviceMemory most = stage_memory(m, c, stack, inputs, 0);
  const int64_t last = c.pipeline - 1;
  const auto consider = [&](int64_t stage) {
    const DeviceMemory memory = stage_memory(m, c, stack, inputs, stage);
    if (memory.total() > most.total()) most = memory;
  };
  if (last > 0) consider(last);
  // Of stages with the same layers the first one keeps most. The second may have a layer more; and
  // where the first layers are dense, the first stage without them is the one with most experts.
  const int64_t dense = m.experts ? m.experts->dense_layers : 0;
  const int64_t layers = stage_slice(m, c.pipeline, 0).layers;
  for (int64_t stage = 1; stage < last; ++stage) {
    const Slice slice = stage_slice(m, c.pipeline, stage);
    if (dense == 0 && slice.layers <= layers) break;
    consider(stage);
    if (slice.first_layer >= dense) break;
  }
  return most;
}

}  // namespace tombolo::cost
