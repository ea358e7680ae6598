#include "perform/train/torch_groups.h"

#include <cstring>

#include "perform/runtime/checkpoint.h"
#include "perform/train/guarded.h"
#include "perform/update/learning_rate.h"
#include "spec/schedule/sparse_exchange.h"

namespace tombolo::train {

TorchGroups::TorchGroups(const plan::Plan& plan, int32_t replica,
                         std::map<int32_t, StageState*> states, Settle settle)
    : plan_(plan), states_(std::move(states)), settle_(std::move(settle)) {
  if (!runtime::holds_residuals(plan)) return;
  for (const auto& [stage, state] : states_) {
    const int32_t rank = plan.rank_of(stage, replica);
    datacenter_ = plan.ranks[static_cast<size_t>(rank)].datacenter;
    int32_t group = 0;
    for (GroupLayout& layout : group_layouts(plan, stage, state->module().parameters())) {
      const bool leads = schedule::sparse_role(plan, rank, stage, group).leads;
      const auto size = static_cast<size_t>(layout.size);
      if (leads) residuals_[{stage, group}] = {std::move(layout), std::vector<float>(size)};
      ++group;
    }
  }
}

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

UpdateStep TorchGroups::step_of(int64_t iteration) const {
  return {.learning_rate = update::learning_rate(plan_.optimizer, plan_.run.steps, iteration)};
}

Status TorchGroups::update_group(int64_t iteration, int32_t stage, int32_t group) {
  return guarded("updating the weights", [&]() -> Status {
    groups_.at(stage)->update(group, step_of(iteration));
    return {};
  });
}

Status TorchGroups::update_group_sparsely(int64_t iteration, int32_t stage, int32_t group,
                                          const update::SparseGradient& gradient) {
  return guarded("updating blocks of the weights", [&]() -> Status {
    const at::NoGradGuard no_gradients;
    groups_.at(stage)->update(group, step_of(iteration), gradient);
    return {};
  });
}

std::span<float> TorchGroups::residual(int32_t stage, int32_t group) {
  const auto found = residuals_.find({stage, group});
  return found == residuals_.end() ? std::span<float>{} : std::span<float>(found->second.numbers);
}

// Calls with the name and shape of each parameter's part of a residual, and where it begins.
template <class Residuals, class Call>
void TorchGroups::for_each_part(Residuals& residuals, const Call& call) const {
  for (auto& [place, residual] : residuals) {
    const std::vector<Parameter>& parameters = states_.at(place.first)->module().parameters();
    for (size_t at = 0; at < residual.layout.parameters.size(); ++at) {
      const Parameter& parameter = parameters[residual.layout.parameters[at]];
      const std::span numbers(residual.numbers);
      call(parameter.name + ".residual." + datacenter_, parameter.value.sizes().vec(),
           numbers.subspan(static_cast<size_t>(residual.layout.begins[at]),
                           static_cast<size_t>(parameter.value.numel())));
    }
  }
}

void TorchGroups::add_views(std::vector<runtime::TensorView>& out) const {
  for_each_part(residuals_, [&](const std::string& name, const std::vector<int64_t>& shape,
                                std::span<const float> numbers) {
    out.push_back({name, "F32", shape, std::as_bytes(numbers)});
  });
}

Status TorchGroups::load(const runtime::TensorSource& tensors) {
  const auto take = [&](const std::string& name, const std::vector<int64_t>& shape,
                        std::span<float> numbers) -> Status {
    const runtime::NamedTensor tensor = TRY(tensors(name));
    if (tensor.dtype != "F32" || tensor.shape != shape ||
        tensor.bytes.size() != numbers.size_bytes()) {
      return unusable(fmt::format("the checkpoint's {} is {} [{}]", name, tensor.dtype,
                                  fmt::join(tensor.shape, ", ")),
                      "a checkpoint of the same model");
    }
    std::memcpy(numbers.data(), tensor.bytes.data(), tensor.bytes.size());
    return {};
  };
  Status status;
  for_each_part(residuals_, [&](const std::string& name, const std::vector<int64_t>& shape,
                                std::span<float> numbers) {
    if (status) status = take(name, shape, numbers);
  });
  return status;
}

}  // namespace tombolo::train
