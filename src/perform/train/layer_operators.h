// A layer of a stage operator by operator (layer_steps.h): what StageModule computes in one graph, in calls that can
// be arranged, so that a plan of `tombolo strand` decides what runs beside what.
//
//   LayerPass pass(module, 0, {});
//   pass.begin(x);
//   for (const LayerStep& step : forward_steps(pass.meeting())) pass.perform(step.op);
//   use(pass.result());                          // [rows, hidden], as StageModule::forward()
//   pass.begin_backward(gradient);
//   for (const LayerStep& step : backward_steps(pass.meeting())) pass.perform(step.op);
//   use(pass.result());                          // the gradient of x; those of parameters are added to theirs
//
// An operator between products is an autograd graph of its own, of the functions that the module calls; products are
// two halves without a graph (weight_gradients.h); collectives are called as they are. So each keeps what its
// backward pass needs and nothing else, and the last operator that reads something drops it. Results have the bits of
// the module's: sums of gradients are added in the same order (but where attention has no norm before it, OLMo 2).
//
// Operators of one pass may come on different threads, one after another; passes of one layer that go backward add to
// the same gradients, and are not to do so at the same time. Collectives meet those of other shards: all of a group
// perform operators that communicate in the same order.
#pragma once

#include <vector>

#include "perform/train/layer_steps.h"
#include "perform/train/stage_module.h"

namespace tombolo::train {

struct LayerPassOptions {
  bool in_place = false;  // WeightGradients::add_in_place(), for stages that are cut
  bool gather_again = false;
};

// One microbatch's way through one layer, on one shard.
class LayerPass {
 public:
  // Unusable, by name: layers of experts; norms of whole queries and keys that a tensor group shares out, which would
  // meet within an operator that computes; gathering again with context parallelism, where attention meets within
  // its operator too, and might do so at the same time.
  static Status check(const StageModule& module, size_t layer, const LayerPassOptions& options);

  // CHECKs what check() refuses. The module outlives it. Layers are numbered within the stage.
  LayerPass(const StageModule& module, size_t layer, const LayerPassOptions& options);

  Meeting meeting() const;
  const LayerPassOptions& options() const { return options_; }

  // Hidden states, or the gradient of what forward operators made of them: the shard's own rows.
  void begin(const at::Tensor& x);
  void begin_backward(const at::Tensor& gradient);
  // In an order that layer_steps.h allows. Throws what LibTorch and collectives throw.
  void perform(LayerOperator op);
  // Of the last operator of a pass.
  const at::Tensor& result() const { return flow_.front(); }

 private:
  using Tensors = std::vector<at::Tensor>;

  // An operator between products.
  struct Graph {
    Tensors leaves;
    at::Tensor out;

    template <class Make>
    at::Tensor forward(const Tensors& inputs, const Make& make);
    // The gradients of the leaves. `passed`: what else comes for the first of them, added before the rest.
    Tensors backward(const at::Tensor& gradient, const at::Tensor& passed = {});
  };

  // Products of one input, in the order of StageModule::run_layer().
  struct Products {
    std::vector<StageModule::Affine> affines;
    at::Tensor input;
    Tensors gradients;
    int halves = 0;  // of the backward pass that are done
  };

  Tensors multiply(Products& products, bool in_parts);
  at::Tensor input_half(Products& products);
  void weight_half(Products& products);
  void finish_half(Products& products);
  at::Tensor bring(const at::Tensor& x) const;
  at::Tensor sum(const at::Tensor& partial) const;
  at::Tensor add_block(Graph& graph, const StageModule::Affine& product,
                       const StageModule::Affine& norm);
  at::Tensor back_block(Graph& graph) const;
  void perform_backward(LayerOperator op);

  const StageModule& module_;
  const StageModule::Layer& layer_;
  const LayerPassOptions options_;
  Graph norm_1_, attention_, block_1_, norm_2_, activation_, block_2_;
  Products qkv_, projection_, up_, down_;
  at::Tensor normed_1_, normed_2_;  // scattered, where they are gathered again
  at::Tensor residual_;  // beside the line of operators: of hidden states, then of gradients
  Tensors flow_;         // what the last one of the line made
};

}  // namespace tombolo::train
