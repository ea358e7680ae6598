// A stage operator by operator: embedding, layers (layer_operators.h), head and loss.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "perform/train/strand_layers.h"

namespace tombolo::train {

// One microbatch's way through a stage, on one shard. Results are bitwise those of StageModule::forward() and of the
// backward pass of its graph, except for a matrix that is both embedding and head of one stage, whose gradient is
// summed in another order (weight_gradients.h).
class StagePass {
 public:
  // Unusable: a stage without layers, and what LayerPass::check() refuses.
  static Status check(const StageModule& module);

  // `again` where the module has no head. The module outlives it.
  StagePass(const StageModule& module, const LayerPassOptions& options);

  // `input`: tokens or hidden states, as the module's; `need` likewise. `loss`: of logits, where it has the head.
  using Loss = std::function<at::Tensor(const at::Tensor& logits)>;
  void begin(const at::Tensor& input, StageModule::Need need, Loss loss);
  // Of hidden states, or of the loss.
  void begin_backward(const at::Tensor& gradient);
  // From now on the backward pass leaves the gradients of weights of layers for perform_weights().
  void defer() { defers_ = true; }

  // One operator after the other. operators_of() has them for an executor.
  void perform_forward();
  void perform_backward();
  void perform_weights();

  // After its forward pass, and after its backward pass; neither has a graph.
  const at::Tensor& output() const { return has_head() ? loss_ : layers_.back()->result(); }
  const at::Tensor& input_gradient() const { return layers_.front()->result(); }
  // For a stage without the head: its output is not needed any more.
  void forget_output() { layers_.back()->forget_result(); }
  size_t layers() const { return layers_.size(); }
  Meeting meeting() const { return layers_.front()->meeting(); }

 private:
  friend std::vector<StrandOperator> operators_of(StagePass* forward, StagePass* backward);
  bool has_embedding() const { return module_.embedding_.weight != StageModule::kNone; }
  bool has_head() const { return module_.head_.weight != StageModule::kNone; }
  void needs(int parameter) const;
  void needs_layer(size_t layer) const;
  void embed();
  void head();
  void back_head();

  const StageModule& module_;
  std::vector<std::unique_ptr<LayerPass>> layers_;
  std::vector<LayerPass*> forward_, backward_;
  StageModule::Need need_;
  Loss make_loss_;
  bool defers_ = false;
  WeightGradients of_head_;  // outlives the graph
  at::Tensor input_, embedded_, head_input_, graph_of_loss_, loss_, gradient_;
};

// Of one of them alone, or of both: strands of one executor (strand_layers.h). begin() and begin_backward() were called.
std::vector<StrandOperator> operators_of(StagePass* forward, StagePass* backward);

}  // namespace tombolo::train
