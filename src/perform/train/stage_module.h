// The slice of a decoder that one pipeline stage holds: its parameters, and its forward pass as a
// LibTorch graph.
//
// A layer is  x += attention(norm(x));  x += mlp(norm(x)), with Llama's or GPT-2's choices (see
// model::Model). Tokens are rows: every activation is [samples * sequence, hidden].
//
// Also computed, beyond both: heads of another width, biases of some projections
// only, norms of queries and keys, more learned positions than a sequence has, Llama 3.1's
// stretched rotary positions, norms after attention and MLP (OLMo 2), layers without positions
// (SmolLM3); Gemma's gate, norms and embedding, Gemma 2's limits of scores and logits; windows; mixtures of
// experts in place of the MLP (mixture_of_experts.h), all experts of a layer or a part of them.
//
// A parameter's name and first value do not depend on which stage holds it: the value is drawn from
// the stream "init/<name>" of the seed. Matrices are normal(0, 1 / sqrt(3 hidden)), which is
// GPT-2's 0.02 at its width 768, divided by sqrt(2 layers) where they write to the residual stream
// (Radford et al. 2019); embeddings normal(0, 0.1); norms start at one, biases at zero. Only
// matrices decay, embeddings included.
// docs/decisions/0007-libtorch-operators-and-named-initial-values.md
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "perform/train/expert_exchange.h"
#include "perform/train/operations.h"
#include "perform/train/shard_collectives.h"
#include "perform/train/torch_compat.h"
#include "perform/train/weight_gradients.h"
#include "spec/model/model.h"

namespace tombolo::train {

struct Parameter {
  std::string name;  // "layers.3.attention.query.weight"
  at::Tensor value;  // a leaf that requires gradients
  bool decays = false;
  // Of the embedding: on the stage of a head that is tied to it. Its gradient is summed with that
  // of the embedding; checkpoints have one of the two.
  bool copy = false;
  at::Tensor half = {};  // in mixed precision, of what matrix products read: a copy in bfloat16
  // Of the replicas that shard the optimizer (ZeRO-1), another one updates it. Where `half` is all
  // that this one reads of it, `value` has the shape of the parameter and the memory of a number.
  bool elsewhere = false;
  bool of_expert = false;        // a routed one
  bool saved_elsewhere = false;  // another replica holds the same and writes it
  bool has_value() const { return value.numel() == 0 || value.is_contiguous(); }
};

// What a shard has of a parameter.
struct ParameterCut {
  int64_t axis = 0;  // rows or columns of a matrix
  int64_t first = 0, count = 0;
  bool whole = true;  // all of it, as the other shards of its tensor group
  // Then: whether each has a part of its gradient, or all of them the same.
  bool in_parts = false;
};

class LayerPass;
class StagePass;

class StageModule {
 public:
  // Unusable for a shape that this code cannot compute, such as latent attention. `seed`:
  // nothing leaves all values zero, for callers that load them. `type`: float, or double for
  // checking gradients. `experts`: if other ranks have the rest of each layer's experts; outlives the
  // module and its graphs.
  static Result<StageModule> create(const model::Model& model, const model::Slice& slice,
                                    std::optional<uint64_t> seed, at::ScalarType type = at::kFloat,
                                    ExpertExchange* experts = nullptr);

  // The same parameters, for passes that are computed at the same time as others: tokens go to other ranks'
  // experts by this exchange.
  StageModule of_strand(ExpertExchange* experts) const;

  // One of the shards of a stage, by tensor and context parallelism: its parameters are views of this one's, by
  // the same numbers, each a leaf of its own. Both the place and this module outlive it and stay where they are.
  // Its forward pass is one of all shards together (shard_collectives.h): tokens and targets are its own, hidden
  // states those of its own_rows(), and of the logits it has the vocabulary of its part. `samples`: of a
  // microbatch. Unusable, naming the key, where the model cannot be cut so.
  Result<StageModule> shard(const ShardPlace& place, int64_t samples) const;
  const std::vector<ParameterCut>& cuts() const { return cuts_; }  // one per parameter; of shards

  // input: tokens, int64 [samples, sequence], where the slice has the embedding; else hidden states
  // [samples * sequence, hidden]. Returns hidden states, or logits [samples * sequence, vocabulary]
  // where it has the head. `gradients`: what the backward pass may leave for later; outlives the
  // graph of the result. `need`: called before the pass first reads a parameter of the embedding, of
  // each layer, and of norm and head, with its number.
  using Need = std::function<void(size_t parameter)>;
  at::Tensor forward(const at::Tensor& input, WeightGradients* gradients = nullptr,
                     const Need& need = {}) const;

  // The same in parts, for passes that attend to keys and values which earlier passes have kept
  // (prefill_shard.h). Rows follow each other in one sample; `first`: the position of the first.
  at::Tensor embed(const at::Tensor& tokens, int64_t first) const;
  struct Projected {
    at::Tensor query, key, value;  // [rows, heads or kv_heads * head_size], normalised, not rotated
  };
  Projected project(size_t layer, const at::Tensor& x) const;
  bool rotates(size_t layer) const { return layers_[layer].rotates; }
  // How many tokens a row of the layer attends to; nothing: to all before it.
  std::optional<int64_t> window(size_t layer) const {
    return layers_[layer].windowed ? model_.attention_window : std::nullopt;
  }
  AttentionShape attention_shape(int64_t rows) const;
  // The rest of the layer, from what attention made of the values.
  at::Tensor finish_layer(size_t layer, const at::Tensor& x, const at::Tensor& mixed) const;
  at::Tensor logits(const at::Tensor& x) const;

  // Mean cross entropy in nats per token. targets: int64 [samples * sequence].
  static at::Tensor loss(const at::Tensor& logits, const at::Tensor& targets);
  // A shard's part of it, which is that of its tensor group.
  at::Tensor shard_loss(const at::Tensor& logits, const at::Tensor& targets) const;

  // From now on activations are bfloat16, from the output of the embedding on, and so are copies of
  // the matrices that products read. Embeddings are looked up in float32; norms, softmax and loss
  // are computed in it (mixed_operations.h), and gradients add up in it. Such a forward pass has
  // gradients of weights only with WeightGradients.
  void compute_in_bf16();
  // After the values have changed: the copies follow.
  void refresh_copies();
  void refresh_copy(size_t parameter);
  // Another replica updates this parameter: keeps only the values that passes read.
  void leave_to_another(size_t parameter);
  // Passes read the copy of the parameter and not its values.
  bool reads_copy_alone(size_t parameter) const;
  at::ScalarType activation_type() const { return activation_type_; }
  int64_t sequence() const { return model_.sequence; }
  bool has_some_experts() const { return exchange_ != nullptr; }  // other ranks have the rest

  // In the order of the forward pass.
  std::vector<Parameter>& parameters() { return parameters_; }
  const std::vector<Parameter>& parameters() const { return parameters_; }

 private:
  friend class LayerPass;  // a layer operator by operator, of the same pieces (layer_operators.h)
  friend class StagePass;

  // Indices into parameters_; kNone where the model has none.
  static constexpr int kNone = -1;
  struct Affine {
    int weight = kNone;
    int bias = kNone;
  };
  struct Mlp {
    Affine gate, up, down;
  };
  struct Layer {
    Affine attention_norm, query, key, value, query_norm, key_norm, output, attention_output_norm;
    Affine mlp_norm, mlp_output_norm;
    Mlp mlp;  // or in its place:
    Affine router, shared_gate;
    std::vector<Mlp> experts;  // those that are here
    Mlp shared;
    int first = kNone;      // of its parameters
    bool rotates = false;   // queries and keys, where the model does
    bool windowed = false;  // attends to the last tokens alone
  };
  class Builder;
  class Cutter;
  template <class Call>
  static void for_each_mlp(const Layer& layer, const Call& call);

  const at::Tensor& value(int index) const { return parameters_[static_cast<size_t>(index)].value; }
  at::Tensor apply(const Affine& affine, const at::Tensor& x, WeightGradients* gradients) const;
  at::Tensor normalise(const Affine& affine, const at::Tensor& x) const;
  at::Tensor normalise_heads(const Affine& affine, const at::Tensor& x) const;
  at::Tensor normalise_parts(const Affine& affine, const at::Tensor& x) const;
  at::Tensor enter(const at::Tensor& x) const;
  at::Tensor leave(const at::Tensor& partial) const;
  at::Tensor apply_part(const Affine& affine, const at::Tensor& x,
                        WeightGradients* gradients) const;
  bool adds_bias_late(const Affine& affine) const { return place_ && affine.bias != kNone; }
  at::Tensor add_block(const at::Tensor& residual, const Affine& product, const Affine& norm,
                       const at::Tensor& sum) const;
  at::Tensor attend_heads(const Layer& layer, const at::Tensor& query, const at::Tensor& key,
                          const at::Tensor& value) const;
  at::Tensor mix(const Layer& layer, const at::Tensor& query, const at::Tensor& key,
                 const at::Tensor& value) const;
  at::Tensor embed_shard(const at::Tensor& tokens) const;
  at::Tensor scaled(at::Tensor x) const;
  at::Tensor head(const at::Tensor& x, WeightGradients* gradients) const;
  AttentionTables tables_of(const Layer& layer) const;
  at::Tensor run_layer(const Layer& layer, const at::Tensor& x, WeightGradients* gradients) const;
  at::Tensor activation(const at::Tensor& up, const at::Tensor& gate) const;
  at::Tensor activate(const Mlp& mlp, const at::Tensor& x, WeightGradients* gradients) const;
  at::Tensor mix_experts(const Layer& layer, const at::Tensor& x, WeightGradients* gradients) const;
  at::Tensor after_attention(const Layer& layer, const at::Tensor& x, const at::Tensor& mixed,
                             WeightGradients* gradients) const;

  model::Model model_;
  std::vector<Parameter> parameters_;
  std::vector<Layer> layers_;
  Affine embedding_, positions_, norm_, head_;
  AttentionTables tables_;
  at::Tensor window_mask_;  // of layers with a window, where the model has some
  at::ScalarType activation_type_ = at::kFloat;
  ExpertExchange* exchange_ = nullptr;  // none: all experts are here
  // Of shards.
  const ShardPlace* place_ = nullptr;
  int64_t samples_ = 0;
  std::vector<ParameterCut> cuts_;
};

}  // namespace tombolo::train
