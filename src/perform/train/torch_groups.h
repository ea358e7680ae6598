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
  TorchGroups(const plan::Plan& plan, std::map<int32_t, StageState*> states, Settle settle)
      : plan_(plan), states_(std::move(states)), settle_(std::move(settle)) {}

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

 private:
  const plan::Plan& plan_;
  const std::map<int32_t, StageState*> states_;
  const Settle settle_;
  runtime::GroupWatcher* watcher_ = nullptr;
  std::map<int32_t, std::unique_ptr<StageGroups>> groups_;  // while somebody watches
};

}  // namespace tombolo::train
