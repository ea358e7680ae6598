#include "perform/train/stage_state.h"

#include <cstring>
#include <utility>

#include "perform/update/muon.h"

namespace tombolo::train {
namespace {

using kernels::NamedTensor;
using plan::OptimizerName;

// As checkpoints name it behind the parameter's name.
using NamedMoments = std::vector<std::pair<const char*, at::Tensor>>;
NamedMoments named(const Moments& moments, OptimizerName optimizer) {
  switch (optimizer) {
    case OptimizerName::kSgd:
      return {{".sgd.momentum", moments.first}};
    case OptimizerName::kMuon:
      return {{".muon.momentum", moments.first}};
    case OptimizerName::kAdamW:
      break;
  }
  return {{".adam.first_moment", moments.first}, {".adam.second_moment", moments.second}};
}

std::string last_steps_name(OptimizerName optimizer) {
  return optimizer == OptimizerName::kSgd ? ".sgd.last_steps" : ".adam.last_steps";
}

const char* step_name(OptimizerName optimizer) {
  return optimizer == OptimizerName::kSgd    ? ".sgd.step"
         : optimizer == OptimizerName::kMuon ? ".muon.step"
                                             : ".adam.step";
}

Result<NamedTensor> find(const kernels::TensorSource& tensors, const std::string& name,
                         const std::string& dtype, const std::vector<int64_t>& shape) {
  NamedTensor tensor = TRY(tensors(name));
  int64_t size = dtype == "I64" ? 8 : 4;
  for (const int64_t extent : shape) size *= extent;
  if (tensor.dtype != dtype || tensor.shape != shape ||
      tensor.bytes.size() != static_cast<size_t>(size)) {
    return unusable(fmt::format("the checkpoint's {} is {} [{}] in {} bytes, the model has {} [{}]",
                                name, tensor.dtype, fmt::join(tensor.shape, ", "),
                                tensor.bytes.size(), dtype, fmt::join(shape, ", ")),
                    "a checkpoint of the same model");
  }
  return tensor;
}

}  // namespace

StageState::StageState(StageModule module, const plan::Optimizer& optimizer)
    : StageState(std::move(module), optimizer, {}, 0) {}

StageState::StageState(StageModule module, const plan::Optimizer& optimizer,
                       std::vector<int32_t> owners, int32_t own)
    : module_(std::move(module)), optimizer_(optimizer), owners_(std::move(owners)) {
  for (size_t i = 0; i < owners_.size(); ++i) {
    if (owners_[i] != own) module_.leave_to_another(i);
  }
  for (const Parameter& parameter : module_.parameters()) {
    Moments& moments = moments_.emplace_back();
    if (parameter.elsewhere) continue;
    moments.first = at::zeros_like(parameter.value);
    if (optimizer_of(parameter) == OptimizerName::kAdamW)
      moments.second = at::zeros_like(parameter.value);
  }
}

// Muon leaves all but the matrices of layers to AdamW.
OptimizerName StageState::optimizer_of(const Parameter& parameter) const {
  const OptimizerName name = optimizer_.name_in_use();
  const bool in_layer = parameter.name.starts_with("layers.") && parameter.value.dim() == 2;
  return name == OptimizerName::kMuon && !in_layer ? OptimizerName::kAdamW : name;
}

// Norms and biases never decay; the embeddings as the job says.
double StageState::decay_of(const Parameter& parameter) const {
  const bool embeds = parameter.name == "embedding.weight" || parameter.name == "positions.weight";
  const bool decays = parameter.decays && (optimizer_.decay_embedding.value_or(true) || !embeds);
  return decays ? optimizer_.weight_decay : 0;
}

Status StageState::check_gradients(const char* doing) const {
  for (const Parameter& parameter : module_.parameters()) {
    if (!parameter.elsewhere && !parameter.value.grad().defined()) {
      return failed(
          fmt::format("{} has no gradient: {} before any backward pass", parameter.name, doing));
    }
  }
  return {};
}

int64_t StageState::bytes() const {
  size_t sum = 0;
  const auto add = [&](const at::Tensor& tensor) {
    if (tensor.defined() && tensor.storage().nbytes() > 0) sum += tensor.nbytes();
  };
  for (size_t i = 0; i < moments_.size(); ++i) {
    const Parameter& parameter = module_.parameters()[i];
    if (parameter.has_value()) add(parameter.value);
    for (const at::Tensor* each :
         {&parameter.half, &parameter.value.grad(), &moments_[i].first, &moments_[i].second})
      add(*each);
  }
  return static_cast<int64_t>(sum);
}

void StageState::update(const UpdateStep& step) {
  begin_update();
  for (size_t i = 0; i < moments_.size(); ++i) {
    Parameter& parameter = module_.parameters()[i];
    if (!parameter.elsewhere) apply(step, parameter, moments_[i], parameter.value.grad());
    parameter.value.mutable_grad() = at::Tensor();  // not needed until the next iteration
  }
  module_.refresh_copies();
}

void StageState::update(const UpdateStep& step, size_t parameter, const at::Tensor& gradient) {
  apply(step, module_.parameters()[parameter], moments_[parameter], gradient);
  module_.refresh_copy(parameter);
}

void StageState::apply(const UpdateStep& step, const Parameter& parameter, const Moments& moments,
                       at::Tensor gradient) const {
  const plan::Optimizer& wanted = optimizer_;
  gradient = gradient.contiguous();
  // Another tensor, because two copies of a tied embedding may have one gradient.
  if (step.gradient_factor != 1) gradient = gradient * step.gradient_factor;
  const std::span<float> weights = floats(parameter.value), gradients = floats(gradient);
  switch (optimizer_of(parameter)) {
    case OptimizerName::kSgd:
      return update::momentum(momentum_step(step, parameter), weights, gradients,
                              floats(moments.first));
    case OptimizerName::kMuon:
      // One learning rate for its matrices and AdamW's rest.
      return update::muon({.learning_rate = step.learning_rate,
                           .momentum = wanted.momentum.value_or(0.95),
                           .weight_decay = decay_of(parameter),
                           .nesterov = wanted.nesterov.value_or(true),
                           .scaling = update::MuonScaling::kMatchAdamW},
                          parameter.value.size(0), parameter.value.size(1), weights, gradients,
                          floats(moments.first));
    case OptimizerName::kAdamW:
      return update::adamw(adam_step(step, parameter), weights, gradients, floats(moments.first),
                           floats(moments.second));
  }
}

update::MomentumStep StageState::momentum_step(const UpdateStep& step,
                                               const Parameter& parameter) const {
  return {.learning_rate = step.learning_rate,
          .momentum = optimizer_.momentum.value_or(0.9),
          .weight_decay = decay_of(parameter),
          .nesterov = optimizer_.nesterov.value_or(false)};
}

update::AdamStep StageState::adam_step(const UpdateStep& step, const Parameter& parameter) const {
  return {.learning_rate = step.learning_rate,
          .beta1 = optimizer_.beta1,
          .beta2 = optimizer_.beta2,
          .epsilon = optimizer_.epsilon,
          .weight_decay = decay_of(parameter),
          .step = updates_};
}

void StageState::expect_sparse() {
  for (const Parameter& parameter : module_.parameters())
    last_steps_.emplace_back(static_cast<size_t>(update::sparse_blocks(parameter.value.numel())));
}

void StageState::update(const UpdateStep& step, size_t index,
                        const update::SparseGradient& gradient) {
  const Parameter& parameter = module_.parameters()[index];
  const Moments& moments = moments_[index];
  const std::span<float> weights = floats(parameter.value);
  if (optimizer_of(parameter) == OptimizerName::kAdamW) {
    update::sparse_adamw(adam_step(step, parameter), gradient, weights, floats(moments.first),
                         floats(moments.second), last_steps_.at(index));
  } else if (const auto how = momentum_step(step, parameter); how.momentum == 0) {
    update::sparse_sgd(how.learning_rate, gradient, weights);
  } else {
    update::sparse_momentum(how, static_cast<uint32_t>(updates_), gradient, weights,
                            floats(moments.first), last_steps_.at(index));
  }
  module_.refresh_copy(index);
}

std::vector<StageState::Shared> StageState::shared() const {
  std::vector<Shared> out;
  for (size_t i = 0; i < owners_.size(); ++i) {
    const Parameter& parameter = module_.parameters()[i];
    const bool narrow = module_.reads_copy_alone(i);
    out.push_back({(narrow ? parameter.half : parameter.value).variable_data(), owners_[i]});
  }
  return out;
}

void StageState::drop_shared() {
  const std::vector<Shared> all = shared();
  for (size_t i = 0; i < all.size(); ++i) {
    if (!module_.parameters()[i].elsewhere) continue;
    c10::StorageImpl* storage = all[i].values.storage().unsafeGetStorageImpl();
    storage->set_data_ptr_noswap(at::DataPtr(nullptr, c10::Device(at::kCPU)));
    storage->set_nbytes(0);
  }
}

void StageState::restore_shared() {
  const std::vector<Shared> all = shared();
  for (size_t i = 0; i < all.size(); ++i) {
    c10::StorageImpl* storage = all[i].values.storage().unsafeGetStorageImpl();
    if (storage->nbytes() > 0) continue;
    storage->set_data_ptr_noswap(c10::GetAllocator(c10::kCPU)->allocate(all[i].values.nbytes()));
    storage->set_nbytes(all[i].values.nbytes());
  }
}

void StageState::add_views(std::vector<kernels::TensorView>& out) const {
  for (size_t i = 0; i < moments_.size(); ++i) {
    const Parameter& parameter = module_.parameters()[i];
    if (parameter.copy || parameter.elsewhere || parameter.saved_elsewhere) continue;
    const std::vector<int64_t> shape = parameter.value.sizes().vec();
    const auto add = [&](const std::string& name, const at::Tensor& values) {
      out.push_back({name, "F32", shape, std::as_bytes(floats(values))});
    };
    add(parameter.name, parameter.value);
    const OptimizerName its = optimizer_of(parameter);
    for (const auto& [name, values] : named(moments_[i], its)) add(parameter.name + name, values);
    if (!last_steps_.empty()) {
      const std::span blocks(last_steps_[i]);
      out.push_back({parameter.name + last_steps_name(its),
                     "U32",
                     {std::ssize(blocks)},
                     std::as_bytes(blocks)});
    }
    out.push_back(
        {parameter.name + step_name(its), "I64", {1}, std::as_bytes(std::span(&updates_, 1))});
  }
}

void StageState::add_to(RunningDigest& digest) const {
  const auto add = [&](const at::Tensor& values) {
    digest.add({static_cast<const char*>(values.data_ptr()), values.nbytes()});
  };
  const auto all_have = [&](size_t parameter) {
    return !module_.has_some_experts() || !module_.parameters()[parameter].of_expert;
  };
  for (size_t i = 0; i < moments_.size(); ++i) {
    const Parameter& parameter = module_.parameters()[i];
    if (!owners_.empty() || !all_have(i)) continue;
    add(parameter.value);
    for (const auto& [name, values] : named(moments_[i], optimizer_of(parameter))) add(values);
  }
  for (const auto& blocks : last_steps_)
    digest.add({reinterpret_cast<const char*>(blocks.data()), blocks.size() * sizeof(uint32_t)});
  const std::vector<Shared> values = shared();
  for (size_t i = 0; i < values.size(); ++i) {
    if (all_have(i)) add(values[i].values);
  }
  digest.add({reinterpret_cast<const char*>(&updates_), sizeof updates_});
}

Status StageState::load(const kernels::TensorSource& tensors, std::optional<int64_t>& step) {
  const auto take = [&](const at::Tensor& to, const std::string& name) -> Status {
    const NamedTensor from = TRY(find(tensors, name, "F32", to.sizes().vec()));
    std::memcpy(to.data_ptr(), from.bytes.data(), from.bytes.size());
    return {};
  };
  const auto take_values = [&](const Parameter& parameter) -> Status {
    if (parameter.has_value()) return take(parameter.value, parameter.name);
    const at::NoGradGuard no_gradients;
    const at::Tensor wide = at::empty(parameter.value.sizes(), at::kFloat);
    TRY(take(wide, parameter.name));
    parameter.half.copy_(wide);
    return {};
  };
  for (size_t i = 0; i < moments_.size(); ++i) {
    const Parameter& parameter = module_.parameters()[i];
    const std::string& name = parameter.name;
    TRY(take_values(parameter));
    if (parameter.elsewhere) continue;
    const OptimizerName its = optimizer_of(parameter);
    for (const auto& [moment, values] : named(moments_[i], its)) TRY(take(values, name + moment));
    if (!last_steps_.empty()) {
      std::vector<uint32_t>& to = last_steps_[i];
      const NamedTensor from =
          TRY(during(find(tensors, name + last_steps_name(its), "U32", {std::ssize(to)}),
                     "reading what [exchange] mode = \"sparse\" keeps, and \"dense\" does not"));
      std::memcpy(to.data(), from.bytes.data(), from.bytes.size());
    }
    int64_t its_step = 0;
    const NamedTensor count = TRY(find(tensors, name + step_name(its), "I64", {1}));
    std::memcpy(&its_step, count.bytes.data(), 8);
    if (its_step < 0 || (step && *step != its_step)) {
      return unusable(fmt::format("the checkpoint's {}{} is {}, other parameters are at {}", name,
                                  step_name(its), its_step, step.value_or(0)),
                      "parts that were written at the same iteration");
    }
    step = its_step;
  }
  module_.refresh_copies();
  return {};
}

}  // namespace tombolo::train
