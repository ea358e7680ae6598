#include "predict/cost/device_memory.h"

#include <algorithm>
#include <numeric>
#include <span>
#include <vector>

#include "base/check.h"
#include "predict/cost/volume.h"

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

  // Of a model with linear attention a layer stands for the mean of both kinds.
  double mean(double full, double linear) const {
    const double share = m_.full_attention_share();
    return share * full + (1 - share) * linear;
  }

  // Queries, keys, values and the output of attention, in elements.
  double heads_width() const {
    if (m_.latent_attention) {
      const auto& l = *m_.latent_attention;
      // Values are a view of what the compressed keys and values are expanded to.
      return real(m_.heads * (2 * (l.nope_dim + l.rope_dim) + l.nope_dim + 2 * l.value_dim));
    }
    const double full =
        real(m_.attention_width() + m_.query_width() + 2 * m_.kv_heads * m_.head_size());
    if (!m_.linear_attention) return full;
    // Before and after the convolution, the gate, and what the states give.
    const auto& l = *m_.linear_attention;
    return mean(full, real(2 * l.mixed_width() + 2 * l.value_width()));
  }

  PerToken attention(Recompute recompute) const {
    PerToken bytes = PerToken{e_ * heads_width(), e_ * h_ + mask()} + input();
    if (m_.latent_attention) {
      const auto& l = *m_.latent_attention;  // compressed, and again after their norms
      bytes.outside += e_ * real(2 * l.query_rank + 2 * l.kv_rank + l.rope_dim);
    }
    const double heads = mean(real(m_.heads), 0);  // of those that attend to all tokens
    if (stack_.attention == Attention::kFlash) {
      bytes.inside += 4 * heads;  // the sum of each row's softmax
    } else if (recompute == Recompute::kNone) {
      // Softmax; with dropout its mask and its result as well.
      bytes.inside += heads * real(m_.sequence) * (stack_.dropout ? 2 * e_ + 1 : e_);
    }
    return bytes;
  }

  // Inner tensors that backward reads: gate, up and their product, or before and after GELU.
  double inner() const { return m_.gated_mlp() ? 3 : 2; }

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
            : mean(real(m_.kv_heads * m_.head_size()),
                   m_.linear_attention ? real(m_.linear_attention->key_width()) : 0);
    return {e_ * (heads_width() - keys + width), e_ * (h_ + copies)};
  }

  const Model& m_;
  const StackConstants& stack_;
  double e_;
  double h_;
};

// With what tensor parallelism leaves whole.
HeldParameters held(const Model& m, const Configuration& c, const Slice& slice) {
  HeldParameters out = held_parameters(m, c, slice);
  // Learned positions, and what compresses for latent attention.
  double whole = 0;
  if (slice.embedding && m.positions == model::Positions::kLearned) {
    whole += real(m.positions_max.value_or(m.sequence) * m.hidden);
  }
  if (m.latent_attention) {
    const auto& l = *m.latent_attention;
    whole += real(slice.layers * m.hidden * (l.query_rank + l.kv_rank + l.rope_dim));
  }
  out.dense += whole - whole / real(c.tensor);
  return out;
}

// The chunks of layers that a position of the pipeline holds, and at most how many forward passes
// of each wait for their backward pass: with 1F1B one per stage from here to the last.
using Chunks = std::vector<Slice>;
Chunks chunks_at(const Model& m, const Configuration& c, int64_t position) {
  Chunks out;
  for (int64_t chunk = 0; chunk < c.virtual_stages; ++chunk) {
    out.push_back(
        model::stage_slice(m, c.pipeline * c.virtual_stages, chunk * c.pipeline + position));
  }
  return out;
}

// What waits at most, where a forward pass of chunk i keeps kept[i]. Interleaved: the warm-up of
// Megatron-LM and one more, in groups of as many microbatches as there are positions. Of chunks
// of one size their number says all; else the order is gone through until it comes round.
double most_waiting(const Configuration& c, int64_t position, std::span<const double> kept) {
  const int64_t microbatches = std::max<int64_t>(1, c.microbatches());
  const auto chunks = std::ssize(kept);
  const int64_t after = c.pipeline - 1 - position;
  if (c.all_forwards_first())
    return real(microbatches) * std::accumulate(kept.begin(), kept.end(), 0.0);
  if (chunks == 1) return kept[0] * real(std::min(microbatches, after + 1));
  const int64_t warm_up = 2 * after + (chunks - 1) * c.pipeline;
  const bool alike = std::all_of(kept.begin(), kept.end(), [&](double k) { return k == kept[0]; });
  if (alike && microbatches % c.pipeline == 0)
    return kept[0] * real(std::min(microbatches * chunks, warm_up + 1));

  const int64_t round = c.pipeline * chunks;
  const int64_t all = (microbatches + c.pipeline - 1) / c.pipeline * round;
  const auto exists = [&](int64_t pass) {
    return pass / round * c.pipeline + pass % c.pipeline < microbatches;
  };
  const auto chunk_of = [&](int64_t pass) { return pass / c.pipeline % chunks; };
  double now = 0, most = 0;
  int64_t forward = 0;
  const auto pass_forward = [&] {
    if (forward < all && exists(forward)) now += kept[static_cast<size_t>(chunk_of(forward))];
    ++forward;
    most = std::max(most, now);
  };
  while (forward < std::min(all, warm_up)) pass_forward();
  for (int64_t backward = 0; backward < std::min(all, round); ++backward) {
    pass_forward();
    if (exists(backward)) now -= kept[static_cast<size_t>(chunks - 1 - chunk_of(backward))];
  }
  return most;
}

struct ElementBytes {
  double parameter;
  double gradient;
};

// The workspace, and what a stage needs of its layers one after the other: a stack's buffers, what
// ZeRO 3 gathers.
void add_layers_at_work(const Model& m, const Configuration& c, const StackConstants& stack,
                        const Slice& slice, const HeldParameters& mine, const ElementBytes& bytes,
                        DeviceMemory& memory) {
  // One layer, without and with its routed experts, and the ends: embedding and head.
  Slice ends = slice;
  ends.layers = 0;
  const HeldParameters mine_at_ends = held(m, c, ends);
  const double layers_here = std::max<double>(1, real(slice.layers));
  const double dense_layer = (mine.dense - mine_at_ends.dense) / layers_here;
  memory.workspace += Bytes{stack.layer_buffers * dense_layer};
  if (c.zero < 3 || c.replicas() == 1) return;
  // Gathered by ZeRO 3: the layer at work and the next one, and the ends, which stay, with the
  // gradients of a layer. A pipeline gathers once per iteration, and its microbatches sum whole
  // gradients.
  if (c.pipeline > 1) {
    memory.gathered = Bytes{(bytes.parameter + bytes.gradient) * (mine.dense + mine.experts)};
    return;
  }
  const double layer_at_work = dense_layer + mine.experts / layers_here;
  memory.workspace += Bytes{bytes.parameter * (2 * layer_at_work + mine_at_ends.dense) +
                            bytes.gradient * layer_at_work};
}

// Weights, gradients and optimizer. Returns the bytes of a parameter's gradient.
double add_state(const Configuration& c, const StackConstants& stack, const MemoryInputs& inputs,
                 const HeldParameters& mine, DeviceMemory& memory) {
  // Replicas are data x context; those of an expert are fewer by expert parallelism.
  const double replicas = real(c.replicas());
  const double expert_replicas = std::max(1.0, replicas / real(c.expert));
  const auto bytes = [&](double per_parameter, bool split) {
    return Bytes{per_parameter * (mine.dense / (split ? replicas : 1) +
                                  mine.experts / (split ? expert_replicas : 1))};
  };
  // In float32 the weights are their own master copy, which a stack with narrower ones counts to the
  // optimizer.
  const double e = inputs.element_bytes;
  const bool wide = e > 2;
  const double parameter_bytes =
      wide ? std::max(stack.parameter_memory, e) : stack.parameter_memory;
  const double master_bytes = parameter_bytes > stack.parameter_memory ? e : 0;
  memory.parameters = bytes(parameter_bytes, c.zero >= 3);
  const double gradient_bytes =
      (wide ? std::max(stack.gradient_memory, e) : stack.gradient_memory) +
      (inputs.bf16 ? stack.bf16_gradients : 0);
  const double whole = c.whole_gradients();
  memory.gradients =
      whole * bytes(gradient_bytes, false) + (1 - whole) * bytes(gradient_bytes, true);
  const bool stated = inputs.state_bytes != MemoryInputs{}.state_bytes;
  memory.optimizer =
      bytes(stated ? std::max(0.0, inputs.state_bytes - parameter_bytes - gradient_bytes)
                   : stack.optimizer_memory - master_bytes,
            c.zero >= 1);
  return gradient_bytes;
}

// `waiting`: from what a forward pass keeps of each chunk to what all that wait keep at most.
template <typename Waiting>
DeviceMemory memory_of(const Model& m, const Configuration& c, const StackConstants& stack,
                       const MemoryInputs& inputs, std::span<const Slice> chunks,
                       const Waiting& waiting) {
  CHECK(inputs.element_bytes > 0, "numbers of {} bytes", inputs.element_bytes);
  Slice slice{.first_layer = chunks.front().first_layer};
  LayerCounts counts;
  HeldParameters mine;
  for (const Slice& chunk : chunks) {
    slice.layers += chunk.layers;
    slice.embedding = slice.embedding || chunk.embedding;
    slice.head = slice.head || chunk.head;
    const LayerCounts here = model::count_layers(m, chunk);
    counts.dense += here.dense;
    counts.experts += here.experts;
    const HeldParameters held_here = held(m, c, chunk);
    mine.dense += held_here.dense;
    mine.experts += held_here.experts;
  }
  const double e = inputs.element_bytes;
  const double t = real(c.tensor);
  const double sequence = c.sequence_parallel ? t : 1;
  const double h = real(m.hidden);

  DeviceMemory memory{.prefill = inputs.prefill};
  const double gradient_bytes = add_state(c, stack, inputs, mine, memory);

  // Activations.
  const double tokens = real(c.micro_batch * m.sequence) / real(c.context);
  const auto on_device = [&](PerToken per_token) {
    return stack.activation_scale * tokens *
           (per_token.inside / t + per_token.outside / sequence + per_token.whole);
  };
  const Layers layers(m, stack, e);
  const auto kept_of = [&](const Slice& chunk) {
    const LayerCounts here = model::count_layers(m, chunk);
    PerToken kept{0, stack.stage_outputs && !chunk.head ? e * h : 0, 0};
    if (here.dense > 0) kept = kept + layers.kept(false, c.recompute) * real(here.dense);
    if (here.experts > 0) kept = kept + layers.kept(true, c.recompute) * real(here.experts);
    return on_device(kept);
  };
  memory.activations = Bytes{waiting(kept_of)};

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
    add_layers_at_work(m, c, stack, slice, mine, {e, gradient_bytes}, memory);
  }
  return memory;
}

}  // namespace

DeviceMemory slice_memory(const Model& m, const Configuration& c, const StackConstants& stack,
                          const MemoryInputs& inputs, const Slice& slice, double waiting) {
  CHECK(waiting >= 0, "{} forward passes wait", waiting);
  return memory_of(m, c, stack, inputs, {&slice, 1},
                   [&](const auto& kept_of) { return kept_of(slice) * waiting; });
}

DeviceMemory stage_memory(const Model& m, const Configuration& c, const StackConstants& stack,
                          const MemoryInputs& inputs, int64_t stage) {
  if (c.virtual_stages == 1) {
    const Slice slice = model::stage_slice(m, c.pipeline, stage);
    return memory_of(m, c, stack, inputs, {&slice, 1}, [&](const auto& kept_of) {
      const double kept = kept_of(slice);
      return most_waiting(c, stage, {&kept, 1});
    });
  }
  const Chunks chunks = chunks_at(m, c, stage);
  return memory_of(m, c, stack, inputs, chunks, [&](const auto& kept_of) {
    std::vector<double> kept;
    for (const Slice& chunk : chunks) kept.push_back(kept_of(chunk));
    return most_waiting(c, stage, kept);
  });
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
  if (c.virtual_stages > 1 && m.layers % (c.pipeline * c.virtual_stages) != 0) {
    for (int64_t position = 1; position < last; ++position) consider(position);
    return most;
  }
  // Of stages with the same layers the first one keeps most. The second may have a layer more; and
  // where the first layers are dense, the first stage without them is the one with most experts.
  // Where kinds of layers take turns, any may.
  const int64_t first_ones = m.experts ? m.experts->dense_layers : 0;
  const int64_t dense = m.layer_period() > 1 ? m.layers : first_ones;
  const int64_t layers = model::stage_slice(m, c.pipeline, 0).layers;
  for (int64_t stage = 1; stage < last; ++stage) {
    const Slice slice = model::stage_slice(m, c.pipeline, stage);
    if (dense == 0 && slice.layers <= layers) break;
    consider(stage);
    if (slice.first_layer >= dense) break;
  }
  return most;
}

}  // namespace tombolo::cost
