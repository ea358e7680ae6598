#include "perform/train/stage_groups.h"

#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <charconv>
#include <utility>

#include "perform/state/checkpoint.h"
#include "spec/plan/gradient_groups.h"

namespace tombolo::train {
namespace {

constexpr std::string_view kLayers = "layers.";

// The layer that a parameter belongs to; nothing: to the embedding, or to norm and head.
std::optional<int64_t> layer_of(std::string_view name) {
  if (!name.starts_with(kLayers)) return std::nullopt;
  int64_t layer = 0;
  const std::from_chars_result read =
      std::from_chars(name.data() + kLayers.size(), name.data() + name.size(), layer);
  CHECK(read.ec == std::errc{}, "a parameter named \"{}\"", name);
  return layer;
}

bool holds(const model::Slice& slice, const Parameter& parameter) {
  const std::string& name = parameter.name;
  if (const auto layer = layer_of(name))
    return *layer >= slice.first_layer && *layer < slice.first_layer + slice.layers;
  const bool embeds = !parameter.copy && (name == "embedding.weight" || name == "positions.weight");
  return embeds ? slice.embedding : slice.head;
}

int64_t rounded_up(int64_t value, int64_t to) { return (value + to - 1) / to * to; }

}  // namespace

std::vector<GroupLayout> group_layouts(const plan::Plan& plan, int32_t stage,
                                       const std::vector<Parameter>& parameters) {
  const int64_t unit =
      kernels::holds_residuals(plan) || kernels::steps_locally(plan) ? update::kSparseBlock : 1;
  std::vector<GroupLayout> out;
  for (const plan::GradientGroup& each : plan::gradient_groups(plan, stage)) {
    GroupLayout& layout = out.emplace_back();
    for (size_t i = 0; i < parameters.size(); ++i) {
      if (!holds(each.slice, parameters[i])) continue;
      layout.parameters.push_back(i);
      layout.begins.push_back(layout.size);
      layout.size += rounded_up(parameters[i].value.numel(), unit);
    }
  }
  return out;
}

// Autograd calls it after it has added to the gradient of a leaf.
class StageGroups::Hook : public torch::autograd::FunctionPostHook {
 public:
  Hook(StageGroups& groups, size_t parameter) : groups_(groups), parameter_(parameter) {}
  torch::autograd::variable_list operator()(const torch::autograd::variable_list& outputs,
                                            const torch::autograd::variable_list&) override {
    if (groups_.counting_) groups_.note(parameter_);
    return outputs;
  }

 private:
  StageGroups& groups_;
  const size_t parameter_;
};

StageGroups::StageGroups(const plan::Plan& plan, int32_t stage, StageState& state,
                         Complete complete)
    : state_(state), complete_(std::move(complete)) {
  const std::vector<Parameter>& parameters = state_.module().parameters();
  group_of_.resize(parameters.size(), -1);
  for (GroupLayout& layout : group_layouts(plan, stage, parameters)) {
    for (const size_t i : layout.parameters) {
      CHECK(group_of_[i] < 0, "{} lies in two groups", parameters[i].name);
      group_of_[i] = static_cast<int32_t>(groups_.size());
    }
    groups_.push_back({.layout = std::move(layout)});
  }
  for (size_t i = 0; i < parameters.size(); ++i) {
    CHECK(group_of_[i] >= 0, "{} lies in no group", parameters[i].name);
    accumulators_.push_back(torch::autograd::impl::grad_accumulator(parameters[i].value));
    accumulators_.back()->add_post_hook(std::make_unique<Hook>(*this, i));
  }
}

void StageGroups::start_counting() {
  counting_ = true;
  for (Group& group : groups_) group.lacking = group.layout.parameters.size();
}

void StageGroups::begin_backward() {
  if (std::exchange(expected_, false)) start_counting();
}

Status StageGroups::end_backward(bool all_are_there) {
  if (all_are_there) {
    begin_backward();
    for (size_t i = group_of_.size(); counting_ && i-- > 0;) note(i);
  }
  if (!std::exchange(counting_, false)) return {};
  for (const Group& group : groups_) {
    if (group.lacking == 0) continue;
    return failed(fmt::format("{} parameters of a group have no gradient after the last backward",
                              group.lacking));
  }
  return {};
}

Status StageGroups::compute(WeightGradients& gradients) {
  begin_backward();
  if (!counting_) {
    gradients.compute();
    return {};
  }
  const std::vector<Parameter>& parameters = state_.module().parameters();
  const auto place = [&](const at::Tensor& weight) {
    const auto at = std::find_if(parameters.begin(), parameters.end(),
                                 [&](const Parameter& each) { return each.value.is_same(weight); });
    TORCH_CHECK(at != parameters.end(), "a product with a weight that is no parameter");
    return static_cast<size_t>(at - parameters.begin());
  };
  std::vector<bool> waits(parameters.size());
  for (const at::Tensor& weight : gradients.waiting()) waits[place(weight)] = true;
  for (size_t i = parameters.size(); i-- > 0;) {
    if (!waits[i]) note(i);
  }
  gradients.compute([&](const at::Tensor& weight) { note(place(weight)); });
  return end_backward();
}

void StageGroups::note(size_t parameter) {
  Group& group = groups_[static_cast<size_t>(group_of_[parameter])];
  TORCH_CHECK(group.lacking > 0, state_.module().parameters()[parameter].name,
              " has its gradient twice in one pass");
  if (--group.lacking == 0) complete(group);
}

void StageGroups::complete(Group& group) {
  const at::NoGradGuard no_gradients;
  std::vector<Parameter>& parameters = state_.module().parameters();
  const GroupLayout& layout = group.layout;
  int64_t numbers = 0;
  for (const size_t i : layout.parameters) numbers += parameters[i].value.numel();
  group.gradient = numbers == layout.size ? at::empty({layout.size}, at::kFloat)
                                          : at::zeros({layout.size}, at::kFloat);
  for (size_t at = 0; at < layout.parameters.size(); ++at) {
    Parameter& parameter = parameters[layout.parameters[at]];
    const at::Tensor& value = parameter.value;
    const int64_t begin = layout.begins[at];
    at::Tensor part = group.gradient.slice(0, begin, begin + value.numel()).view(value.sizes());
    TORCH_CHECK(value.grad().defined(), parameter.name, " has no gradient");
    part.copy_(value.grad());
    parameter.value.mutable_grad() = part;
  }
  complete_(static_cast<int32_t>(&group - groups_.data()));
}

std::span<float> StageGroups::gradient(int32_t group) const {
  const at::Tensor& gradient = groups_.at(static_cast<size_t>(group)).gradient;
  CHECK(gradient.defined(), "the gradient of group {} is not complete", group);
  return floats(gradient);
}

void StageGroups::begin_update() {
  if (updated_ == 0) state_.begin_update();
  if (++updated_ == groups_.size()) updated_ = 0;
}

void StageGroups::update(int32_t group, const UpdateStep& step) {
  Group& its = groups_.at(static_cast<size_t>(group));
  update_all(its.layout, step, std::exchange(its.gradient, at::Tensor()));
}

void StageGroups::update_all(const GroupLayout& layout, const UpdateStep& step,
                             const at::Tensor& gradient) {
  begin_update();
  const std::vector<Parameter>& parameters = state_.module().parameters();
  for (size_t at = 0; at < layout.parameters.size(); ++at) {
    const size_t i = layout.parameters[at];
    const int64_t begin = layout.begins[at];
    state_.update(step, i, gradient.slice(0, begin, begin + parameters[i].value.numel()));
  }
}

// Each parameter's blocks count from its own beginning.
void StageGroups::update(int32_t group, const UpdateStep& step,
                         const update::SparseGradient& gradient) {
  const GroupLayout& layout = groups_.at(static_cast<size_t>(group)).layout;
  if (!state_.expects_sparse()) {
    const at::Tensor whole = at::zeros({layout.size}, at::kFloat);
    const std::span<float> numbers = floats(whole);
    constexpr auto kBlock = static_cast<size_t>(update::kSparseBlock);
    for (size_t i = 0; i < gradient.blocks.size(); ++i) {
      const size_t begin = gradient.blocks[i] * kBlock;
      std::copy_n(gradient.values.begin() + static_cast<ptrdiff_t>(i * kBlock),
                  std::min(kBlock, numbers.size() - begin),
                  numbers.begin() + static_cast<ptrdiff_t>(begin));
    }
    return update_all(layout, step, whole);
  }
  begin_update();
  const std::vector<Parameter>& parameters = state_.module().parameters();
  size_t from = 0;
  std::vector<uint32_t> own;
  for (size_t at = 0; at < layout.parameters.size(); ++at) {
    const size_t i = layout.parameters[at];
    const auto first = static_cast<uint32_t>(layout.begins[at] / update::kSparseBlock);
    const int64_t end = first + update::sparse_blocks(parameters[i].value.numel());
    own.clear();
    while (from + own.size() < gradient.blocks.size() && gradient.blocks[from + own.size()] < end)
      own.push_back(gradient.blocks[from + own.size()] - first);
    const size_t values = static_cast<size_t>(update::kSparseBlock);
    state_.update(step, i, {own, gradient.values.subspan(from * values, own.size() * values)});
    from += own.size();
  }
}

}  // namespace tombolo::train
