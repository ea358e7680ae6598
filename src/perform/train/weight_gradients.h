// Matrix products whose weight gradients can be computed later.
//
// A schedule with backwards in halves wants the gradient of a stage's input first (I), because the
// stage before waits for it, and those of the weights later (W). Autograd knows whole backwards
// only: asked for one half after the other it goes the way back through the stage twice. So here it
// goes back once, in I, and leaves out the products  weight gradient = g^T x  of the matrices,
// which are W; everything else that a backward consists of is small and belongs to I. Nothing is
// computed twice, and of the activations only x and g wait. Source: Qi, Wan, Huang, Lin, Zero
// Bubble Pipeline Parallelism (ICLR 2024), section 2 and its implementation in Megatron-LM.
//
// Both ways add up the same products in the order of the microbatches, hence the same bits, except
// where a matrix is used twice (tied embeddings).
//
// In mixed precision the products read a copy of the weight in bfloat16 and the gradient that a
// product gives is added to the others of the weight in float32.
#pragma once

#include <functional>
#include <vector>

#include "perform/train/torch_compat.h"

namespace tombolo::train {

// Of one microbatch on one stage. Outlives the graph that its products are part of.
class WeightGradients {
 public:
  // From now on a backward pass leaves the products out.
  void defer() { deferred_ = true; }
  // Or each product adds to the gradient of its weight at once, bypassing autograd. The gradients must
  // exist before, with any strides; autograd would require a contiguous one for a part of a matrix.
  void add_in_place() { in_place_ = true; }

  // For a pass whose graph is gone.
  void forget() { products_.clear(); }

  // The weights whose gradients lack what was left out, in the order of the forward pass.
  std::vector<at::Tensor> waiting() const;

  // Adds what was left out to the gradients of the weights, and forgets it: the last of the forward
  // pass first, as a pass backward would. `done`: called when a weight lacks nothing.
  using Done = std::function<void(const at::Tensor& weight)>;
  void compute(const Done& done = {});

 private:
  friend struct Products;
  struct Product {
    at::Tensor weight;           // whose gradient it is
    at::Tensor input, gradient;  // once a backward pass has left them here
  };
  std::vector<Product> products_;
  bool deferred_ = false, in_place_ = false;
};

// A matrix as a leaf that gets gradients, and as products read it: the same tensor, or a copy of it
// in the type of x.
struct Weight {
  const at::Tensor& leaf;
  const at::Tensor& used;
};

// x used^T + bias, as at::linear: x [rows, columns], weight [outputs, columns]; an undefined bias
// is none.
at::Tensor linear(const at::Tensor& x, const Weight& weight, const at::Tensor& bias,
                  WeightGradients& gradients);

// The backward pass of linear() in two calls, for layers that are performed operator by operator: the gradient of x,
// and what is added to those of the weight and of the bias, which may be undefined. `in_place`: as
// WeightGradients::add_in_place().
at::Tensor gradient_of_input(const at::Tensor& gradient, const at::Tensor& used);
void add_gradients(const at::Tensor& weight, const at::Tensor& bias, const at::Tensor& gradient,
                   const at::Tensor& input, bool in_place);

}  // namespace tombolo::train
