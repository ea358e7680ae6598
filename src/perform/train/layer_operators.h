// A layer of a stage operator by operator (layer_steps.h): what StageModule computes in one graph, in calls that can
// be reordered, so that a plan of `tombolo strand` decides which operators run concurrently.
//
//   LayerPass pass(module, 0, {});
//   pass.begin(x);
//   for (const LayerStep& step : forward_steps(pass.form())) pass.perform(step.op);
//   use(pass.result());                          // [rows, hidden], as StageModule::forward()
//   pass.begin_backward(gradient);
//   for (const LayerStep& step : backward_steps(pass.form())) pass.perform(step.op);
//   use(pass.result());                          // the gradient of x; those of parameters are added to theirs
//
// An operator between products is an autograd graph of its own, of the functions that the module calls; products are
// two halves without a graph (weight_gradients.h); collectives are called as they are. So each keeps what its
// backward pass needs and nothing else, and the last operator that reads a tensor drops it. Results are bitwise those
// of the module: gradients are summed in the same order (except where attention has no norm before it, OLMo 2).
//
// In a mixture of experts, partial outputs of the experts are summed over a tensor group within the operator that sends
// them back. With `again` the forward pass keeps only its input, and the backward pass begins by performing the forward
// operators again.
//
// Operators of one pass may run on different threads: one after another, or those of an exchange while those of the
// shared expert run. Backward passes of one layer add to the same gradients and must not run at the same time.
// Collectives wait for those of other shards: all of a group perform operators that communicate in the same order.
#pragma once

#include <vector>

#include "perform/train/layer_steps.h"
#include "perform/train/mixture_of_experts.h"
#include "perform/train/stage_module.h"

namespace tombolo::train {

struct LayerPassOptions {
  bool in_place = false;  // WeightGradients::add_in_place(), for stages that are cut
  bool gather_again = false;
  bool again = false;  // activations are dropped, and computed a second time
};

// One microbatch's way through one layer, on one shard.
class LayerPass {
 public:
  // Unusable, by name: norms of whole queries and keys that a tensor group shares out, which would communicate within
  // an operator that computes; gathering again where shards might communicate for something else at the same time: with
  // context parallelism in attention, and for the experts of other ranks.
  static Status check(const StageModule& module, size_t layer, const LayerPassOptions& options);

  // CHECKs what check() refuses. The module outlives it. Layers are numbered within the stage.
  LayerPass(const StageModule& module, size_t layer, const LayerPassOptions& options);

  Meeting meeting() const;
  LayerForm form() const;

  // x: hidden states; gradient: of what the forward operators made of them. Both: the shard's own rows.
  void begin(const at::Tensor& x);
  void begin_backward(const at::Tensor& gradient);
  // Call before the forward operators are performed a second time, in the backward pass with `again`.
  void begin_again();
  // In an order that layer_steps.h allows. Throws what LibTorch and collectives throw.
  void perform(LayerOperator op);
  // The output of the last operator of a pass.
  const at::Tensor& result() const { return flow_.front(); }
  void forget_result() { flow_ = {at::Tensor()}; }

 private:
  using Tensors = std::vector<at::Tensor>;

  // An operator between products.
  struct Graph {
    Tensors leaves;
    at::Tensor out;

    // With a graph, unless it is not kept (`keeps`).
    template <class Make>
    at::Tensor forward(bool keeps, const Tensors& inputs, const Make& make);
    // The gradients of the leaves. `passed`: what else comes for the first of them, added before the rest.
    Tensors backward(const at::Tensor& gradient, const at::Tensor& passed = {});
    // As autograd has them: leaves keep a contiguous copy, which a bias sums over rows in another order.
    Tensors backward_as_laid_out(const at::Tensor& gradient);
  };

  // Products of one input, in the module's order: run_layer(), activate(), mix_experts().
  struct Products {
    std::vector<StageModule::Affine> affines;
    at::Tensor input;
    Tensors gradients;
    int halves = 0;  // of the backward pass that are done
  };

  struct Expert {
    Products up, down;
    Graph activation;
  };

  Products products_of(const StageModule::Mlp& mlp) const;
  // What products read of the normalised hidden states.
  void read(const at::Tensor& normed);
  // The gradient of what the MLP or experts have made.
  void read_back(const at::Tensor& gradient);
  at::Tensor activate(Graph& graph, const Tensors& of_products);
  void give_to_experts(const at::Tensor& rows);
  void back_shared_gate();
  void add_shared();
  void add_gradients_of_input();
  void forget();
  ExpertExchange& exchange() const { return *module_.exchange_; }
  int32_t shard() const { return module_.place_ ? module_.place_->shard : 0; }
  bool has_experts() const { return layer_.router.weight != StageModule::kNone; }
  bool has_shared() const { return layer_.shared.up.weight != StageModule::kNone; }
  bool has_shared_gate() const { return layer_.shared_gate.weight != StageModule::kNone; }

  Tensors multiply(Products& products, bool in_parts);
  at::Tensor input_half(Products& products);
  void weight_half(Products& products);
  void finish_half(Products& products);
  at::Tensor bring(const at::Tensor& x) const;
  at::Tensor sum(const at::Tensor& partial) const;
  at::Tensor add_block(Graph& graph, const StageModule::Affine& product,
                       const StageModule::Affine& norm);
  at::Tensor back_block(Graph& graph) const;
  at::Tensor back_last_block();
  void perform_experts(LayerOperator op);
  void perform_backward(LayerOperator op);
  void perform_backward_experts(LayerOperator op);

  const StageModule& module_;
  const StageModule::Layer& layer_;
  const LayerPassOptions options_;
  Graph norm_1_, attention_, block_1_, norm_2_, activation_, block_2_;
  Products qkv_, projection_, up_, down_;
  at::Tensor normed_1_, normed_2_;  // scattered, where they are gathered again
  at::Tensor residual_;  // bypasses the chain of operators: of hidden states, then gradients
  Tensors flow_;         // the output of the last operator
  at::Tensor gradient_;  // with which the backward pass begins

  // Of a mixture.
  Products router_;
  std::vector<Expert> experts_;
  Expert shared_expert_;
  Graph routing_graph_, permute_, unpermute_, shared_gate_;
  Routing routing_;
  std::vector<int64_t> counts_;  // of rows, by expert that is here
  ExpertExchange::Route route_;
  Tensors shared_flow_;                           // of the shared expert, in parallel to flow_
  at::Tensor shared_score_;                       // of the gate, then its gradient
  at::Tensor routed_, shared_;                    // what was made of each token
  at::Tensor of_weights_;                         // the gradient of those in routing_
  at::Tensor of_shared_, of_copies_, of_scores_;  // of what they read, by way of each

  // With `again`.
  at::Tensor input_;
  bool keeps_ = true;  // not while a first forward pass goes through
};

}  // namespace tombolo::train
