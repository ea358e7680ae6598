// The second interface of the kernels that compute with LibTorch: the groups of all stages of a rank.
#pragma once

#include <functional>
#include <map>
#include <memory>

#include "perform/kernels/parameter_groups.h"
#include "perform/train/stage_groups.h"

namespace tombolo::train {

class TorchGroups final : public kernels::ParameterGroups {
 public:
  // By number in the Plan; states outlive it and stay where they are. `settle`: called before the
  // last backward pass of a stage, whose iteration does not count where it fails.
  using Settle = std::function<Status(int32_t stage)>;
  TorchGroups(const plan::Plan& plan, int32_t replica, std::map<int32_t, StageState*> states,
              Settle settle);

  bool are_watched() const { return watcher_ != nullptr; }

  // --- the passes; these do nothing without a watcher
  // What a forward pass of the stage calls before it reads parameters. Interrupted if a group will
  // never be ready.
  StageModule::Need need(int32_t stage) const;
  void begin_backward(int32_t stage);
  // `all_are_there`: gradients were added without autograd (sharded_stage.h), and are complete.
  Status end_backward(int32_t stage, bool all_are_there = false);
  Status compute(int32_t stage, WeightGradients& gradients);

  // --- kernels::ParameterGroups
  void watch(kernels::GroupWatcher& watcher) override;
  Status last_backward(int32_t stage) override;
  std::span<float> gradient(int32_t stage, int32_t group) override {
    return groups_.at(stage)->gradient(group);
  }
  Status update_group(int64_t iteration, int32_t stage, int32_t group) override;
  std::span<float> residual(int32_t stage, int32_t group) override;
  Status update_group_sparsely(int64_t iteration, int32_t stage, int32_t group,
                               const update::SparseGradient& gradient) override;

  update::OuterState outer_state(int32_t stage, int32_t group) override;
  std::vector<float> parameters(int32_t stage, int32_t group) override;
  Status set_parameters(int32_t stage, int32_t group, std::span<const float> values) override;

  // --- what is kept in addition to each parameter: NAME.residual.DATACENTER where this rank leads
  // groups; with local steps NAME.outer.anchor, NAME.outer.momentum and NAME.outer.arrived, which
  // the first replica writes and all read
  void add_views(std::vector<kernels::TensorView>& out) const;
  Status load(const kernels::TensorSource& tensors);
  // Sets the anchors to the parameters as they are now.
  void begin_anew();
  // What replicas have in common where they have parameters of their own.
  void add_to(RunningDigest& digest) const;

 private:
  struct Kept {
    GroupLayout layout;
    std::vector<float> residual = {};  // all as the group's gradient, or empty
    std::vector<float> anchor = {}, momentum = {}, arrived = {};
  };
  template <class AllKept, class Call>
  void for_each_part(AllKept& all, bool shared, const Call& call) const;
  void add_kept(int32_t rank, int32_t stage, int32_t group, GroupLayout layout);
  UpdateStep step_of(int64_t iteration) const;

  const plan::Plan& plan_;
  const std::map<int32_t, StageState*> states_;
  const Settle settle_;
  std::string datacenter_;
  const int32_t replica_;
  double inner_factor_ = 1;                           // of gradients in inner steps
  std::map<std::pair<int32_t, int32_t>, Kept> kept_;  // by stage and group
  kernels::GroupWatcher* watcher_ = nullptr;
  std::map<int32_t, std::unique_ptr<StageGroups>> groups_;  // empty without a watcher
};

}  // namespace tombolo::train
