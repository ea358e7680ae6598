#include "perform/train/torch_groups.h"

#include <algorithm>
#include <cstring>

#include "perform/state/checkpoint.h"
#include "perform/train/guarded.h"
#include "perform/update/learning_rate.h"
#include "spec/schedule/local_steps.h"
#include "spec/schedule/sparse_exchange.h"

namespace tombolo::train {

TorchGroups::TorchGroups(const plan::Plan& plan, int32_t replica,
                         std::map<int32_t, StageState*> states, Settle settle)
    : plan_(plan), states_(std::move(states)), settle_(std::move(settle)), replica_(replica) {
  const bool local = kernels::steps_locally(plan);
  if (!local && !kernels::holds_residuals(plan)) return;
  if (local) inner_factor_ = schedule::inner_factor(plan, replica);
  for (const auto& [stage, state] : states_) {
    const int32_t rank = plan.rank_of(stage, replica);
    datacenter_ = plan.ranks[static_cast<size_t>(rank)].datacenter;
    int32_t group = 0;
    for (GroupLayout& layout : group_layouts(plan, stage, state->module().parameters()))
      add_kept(rank, stage, group++, std::move(layout));
  }
  begin_anew();
}

void TorchGroups::add_kept(int32_t rank, int32_t stage, int32_t group, GroupLayout layout) {
  const plan::Exchange exchange = plan_.exchange.value_or(plan::Exchange{});
  const auto size = static_cast<size_t>(layout.size);
  Kept& kept = kept_[{stage, group}];
  kept.layout = std::move(layout);
  if (exchange.keeps_residuals() && schedule::sparse_role(plan_, rank, stage, group).leads)
    kept.residual.resize(size);
  if (!exchange.is_local()) return;
  kept.anchor.resize(size);
  if (exchange.outer_momentum_in_use() > 0) kept.momentum.resize(size);
  if (exchange.delay_in_use() > 0) kept.arrived.resize(size);
}

void TorchGroups::begin_anew() {
  for (auto& [place, kept] : kept_)
    if (!kept.anchor.empty()) kept.anchor = parameters(place.first, place.second);
}

void TorchGroups::watch(kernels::GroupWatcher& watcher) {
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

Status TorchGroups::end_backward(int32_t stage, bool all_are_there) {
  return watcher_ ? groups_.at(stage)->end_backward(all_are_there) : Status{};
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
  return {.learning_rate = update::learning_rate(plan_.optimizer, plan_.run.steps, iteration),
          .gradient_factor = inner_factor_};
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
  return kept_.at({stage, group}).residual;
}

update::OuterState TorchGroups::outer_state(int32_t stage, int32_t group) {
  Kept& kept = kept_.at({stage, group});
  return {kept.anchor, kept.momentum, kept.arrived};
}

std::vector<float> TorchGroups::parameters(int32_t stage, int32_t group) {
  const GroupLayout& layout = kept_.at({stage, group}).layout;
  const std::vector<Parameter>& parameters = states_.at(stage)->module().parameters();
  std::vector<float> out(static_cast<size_t>(layout.size));
  for (size_t at = 0; at < layout.parameters.size(); ++at) {
    const std::span<const float> values = floats(parameters[layout.parameters[at]].value);
    std::copy(values.begin(), values.end(), out.begin() + layout.begins[at]);
  }
  return out;
}

Status TorchGroups::set_parameters(int32_t stage, int32_t group, std::span<const float> values) {
  return guarded("setting the weights", [&]() -> Status {
    const at::NoGradGuard no_gradients;
    const GroupLayout& layout = kept_.at({stage, group}).layout;
    StageModule& module = states_.at(stage)->module();
    for (size_t at = 0; at < layout.parameters.size(); ++at) {
      const size_t i = layout.parameters[at];
      const std::span<float> to = floats(module.parameters()[i].value);
      std::copy_n(values.begin() + layout.begins[at], to.size(), to.begin());
      module.refresh_copy(i);
    }
    return {};
  });
}

// Calls with the name and shape of each parameter's part of what is kept, and where it begins; of what
// replicas share, or has to be of this datacenter alone.
template <class AllKept, class Call>
void TorchGroups::for_each_part(AllKept& all, bool shared, const Call& call) const {
  for (auto& entry : all) {
    auto& kept = entry.second;
    const std::vector<Parameter>& parameters = states_.at(entry.first.first)->module().parameters();
    const auto parts_of = [&](auto& numbers, const std::string& suffix) {
      if (numbers.empty()) return;
      for (size_t at = 0; at < kept.layout.parameters.size(); ++at) {
        const Parameter& parameter = parameters[kept.layout.parameters[at]];
        call(parameter.name + suffix, parameter.value.sizes().vec(),
             std::span(numbers).subspan(static_cast<size_t>(kept.layout.begins[at]),
                                        static_cast<size_t>(parameter.value.numel())));
      }
    };
    parts_of(kept.residual, ".residual." + datacenter_);
    if (!shared) continue;
    parts_of(kept.anchor, ".outer.anchor");
    parts_of(kept.momentum, ".outer.momentum");
    parts_of(kept.arrived, ".outer.arrived");
  }
}

void TorchGroups::add_views(std::vector<kernels::TensorView>& out) const {
  for_each_part(kept_, replica_ == 0,
                [&](const std::string& name, const std::vector<int64_t>& shape,
                    std::span<const float> numbers) {
                  out.push_back({name, "F32", shape, std::as_bytes(numbers)});
                });
}

void TorchGroups::add_to(RunningDigest& digest) const {
  for (const auto& [place, kept] : kept_) {
    for (const auto* numbers : {&kept.anchor, &kept.momentum})
      digest.add({reinterpret_cast<const char*>(numbers->data()), numbers->size() * sizeof(float)});
  }
}

Status TorchGroups::load(const kernels::TensorSource& tensors) {
  const auto take = [&](const std::string& name, const std::vector<int64_t>& shape,
                        std::span<float> numbers) -> Status {
    const kernels::NamedTensor tensor = TRY(tensors(name));
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
  for_each_part(
      kept_, true,
      [&](const std::string& name, const std::vector<int64_t>& shape, std::span<float> numbers) {
        if (status) status = take(name, shape, numbers);
      });
  return status;
}

}  // namespace tombolo::train
