// The second face of the kernels that compute with LibTorch: the groups of all stages of a rank.
#pragma once

#include <functional>
#include <map>
#include <memory>

#include "perform/runtime/parameter_groups.h"
#include "perform/train/stage_groups.h"

namespace tombolo::train {

class TorchGroups final : public runtime::ParameterGroups {
 public:
  // By number in the Plan; states outlive it and stay where they are. `settle`: called before the
  // last backward pass of a stage, whose iteration does not count where it fails.
  using Settle = std::function<Status(int32_t stage)>;
  TorchGroups(const plan::Plan& plan, int32_t replica, std::map<int32_t, StageState*> states,
              Settle settle);

  bool are_watched() const { return watcher_ != nullptr; }

  // --- the passes; nothing happens while nobody watches
  // What a forward pass of the stage asks before it reads parameters. Interrupted where a group will
  // never be ready.
  StageModule::Need need(int32_t stage) const;
  void begin_backward(int32_t stage);
  Status end_backward(int32_t stage);
  Status compute(int32_t stage, WeightGradients& gradients);

  // --- runtime::ParameterGroups
  void watch(runtime::GroupWatcher& watcher) override;
  Status last_backward(int32_t stage) override;
  std::span<float> gradient(int32_t stage, int32_t group) override {
    return groups_.at(stage)->gradient(group);
  }
  Status update_group(int64_t iteration, int32_t stage, int32_t group) override;
  std::span<float> residual(int32_t stage, int32_t group) override;
  Status update_group_sparsely(int64_t iteration, int32_t stage, int32_t group,
                               const update::SparseGradient& gradient) override;

  // --- residuals, where this rank leads groups: NAME.residual.DATACENTER of each parameter
  void add_views(std::vector<runtime::TensorView>& out) const;
  Status load(const runtime::TensorSource& tensors);

 private:
  struct Residual {
    GroupLayout layout;
    std::vector<float> numbers;  // as the group's gradient
  };
  template <class Residuals, class Call>
  void for_each_part(Residuals& residuals, const Call& call) const;
  UpdateStep step_of(int64_t iteration) const;

  const plan::Plan& plan_;
  const std::map<int32_t, StageState*> states_;
  const Settle settle_;
  std::string datacenter_;
  std::map<std::pair<int32_t, int32_t>, Residual> residuals_;  // by stage and group
  runtime::GroupWatcher* watcher_ = nullptr;
  std::map<int32_t, std::unique_ptr<StageGroups>> groups_;  // while somebody watches
};

}  // namespace tombolo::train
