#include "perform/train/torch_groups.h"

#include "perform/train/guarded.h"
#include "perform/update/learning_rate.h"

namespace tombolo::train {

void TorchGroups::watch(runtime::GroupWatcher& watcher) {
  watcher_ = &watcher;
  for (const auto& [stage, state] : states_) {
    groups_[stage] = std::make_unique<StageGroups>(
        plan_, stage, *state,
        [this, number = stage](int32_t group) { watcher_->complete(number, group); });
  }
}

StageModule::Need TorchGroups::need(int32_t stage) const {
  if (!watcher_) return {};
  return [this, stage, groups = groups_.at(stage).get()](size_t parameter) {
    const Status ready = watcher_->await_ready(stage, groups->group_of(parameter));
    if (!ready) throw Interrupted(ready.error());
  };
}

void TorchGroups::begin_backward(int32_t stage) {
  if (watcher_) groups_.at(stage)->begin_backward();
}

Status TorchGroups::end_backward(int32_t stage) {
  return watcher_ ? groups_.at(stage)->end_backward() : Status{};
}

Status TorchGroups::compute(int32_t stage, WeightGradients& gradients) {
  if (watcher_) return groups_.at(stage)->compute(gradients);
  gradients.compute();
  return {};
}

Status TorchGroups::last_backward(int32_t stage) {
  TRY(settle_(stage));
  groups_.at(stage)->expect();
  return {};
}

Status TorchGroups::update_group(int64_t iteration, int32_t stage, int32_t group) {
  return guarded("updating the weights", [&]() -> Status {
    groups_.at(stage)->update(group, {.learning_rate = update::learning_rate(
                                          plan_.optimizer, plan_.run.steps, iteration)});
    return {};
  });
}

}  // namespace tombolo::train
