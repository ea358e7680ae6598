// The parameters of a stage in the groups of the Plan (plan/gradient_groups.h), and the moments at
// which their gradients are complete.
//
// In the last backward pass of an iteration autograd adds what a parameter's gradient still lacks,
// and calls a hook: for matrices, embeddings, norms and biases, and for a matrix that is used
// twice after both uses. Where gradients of weights were left for later (weight_gradients.h) the
// products report it. When all gradients of a group are complete, they are copied into one tensor, of
// which they become views: so no gradient is held twice, and a sum is written where they are read.
//
// Source of the idea: Li et al., PyTorch Distributed (VLDB 2020), section 3.2; here groups follow
// the layers, because the next forward pass asks for them layer by layer.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "base/result.h"
#include "perform/train/stage_state.h"
#include "perform/train/torch_compat.h"
#include "spec/plan/plan.h"

namespace tombolo::train {

// Which parameters a group has, and where each begins in its gradient: one behind the other, or at a
// multiple of an update's block, zeros between, so that no block is of two parameters.
struct GroupLayout {
  std::vector<size_t> parameters;
  std::vector<int64_t> begins;
  int64_t size = 0;
};
std::vector<GroupLayout> group_layouts(const plan::Plan& plan, int32_t stage,
                                       const std::vector<Parameter>& parameters);

class StageGroups {
 public:
  using Complete = std::function<void(int32_t group)>;
  // The state outlives it and stays where it is; no pass backward comes after it. `complete` is
  // called within passes backward.
  StageGroups(const plan::Plan& plan, int32_t stage, StageState& state, Complete complete);
  // Hooks know where it is.
  StageGroups(const StageGroups&) = delete;

  int32_t groups() const { return static_cast<int32_t>(groups_.size()); }
  int32_t group_of(size_t parameter) const { return group_of_[parameter]; }

  // The next backward pass is the last one of the iteration.
  void expect() { expected_ = true; }
  // Around every whole pass.
  void begin_backward();
  // `all_are_there`: all gradients are complete, whatever hooks reported, and begin_backward() was not called.
  Status end_backward(bool all_are_there = false);
  // Instead: computes the gradients that earlier passes left for later.
  Status compute(WeightGradients& gradients);

  std::span<float> gradient(int32_t group) const;
  // One step of the optimizer; the gradient is gone afterwards. Any thread.
  void update(int32_t group, const UpdateStep& step);
  // One step with these blocks of a gradient, whatever gradient there is. Of a state that does not expect sparse
  // updates, a step with zeros where nothing came.
  void update(int32_t group, const UpdateStep& step, const update::SparseGradient& gradient);

 private:
  struct Group {
    GroupLayout layout;
    size_t lacking = 0;  // parameters without their whole gradient
    at::Tensor gradient;
  };
  class Hook;
  void note(size_t parameter);
  void complete(Group& group);
  void start_counting();
  void begin_update();
  void update_all(const GroupLayout& layout, const UpdateStep& step, const at::Tensor& gradient);

  StageState& state_;
  const Complete complete_;
  std::vector<Group> groups_;
  std::vector<int32_t> group_of_;  // by parameter
  // Of leaf tensors. They and their hooks live only while a reference is held, as here.
  std::vector<compat::GradAccumulator> accumulators_;
  bool expected_ = false, counting_ = false;
  size_t updated_ = 0;  // groups, in this iteration
};

}  // namespace tombolo::train
