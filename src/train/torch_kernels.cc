#include "train/torch_kernels.h"

#include <cmath>
#include <cstring>
#include <map>
#include <utility>

#include "base/hash.h"
#include "schedule/schedule.h"
#include "train/adamw.h"
#include "train/blas_check.h"
#include "train/byte_data.h"
#include "train/replica_group.h"
#include "train/stage_module.h"

namespace tombolo::train {
namespace {

using runtime::NamedTensor;
using runtime::Payload;

// LibTorch throws; nothing that this module hands out does.
template <class Function>
auto guarded(const char* doing, Function function) -> decltype(function()) {
  try {
    return function();
  } catch (const std::bad_alloc&) {
    return infeasible(fmt::format("out of memory while {}", doing),
                      "a smaller training.micro_batch, or recompute = \"full\"");
  } catch (const c10::Error& error) {
    return failed(fmt::format("LibTorch, while {}: {}", doing, error.what_without_backtrace()));
  } catch (const std::exception& error) {
    return failed(fmt::format("while {}: {}", doing, error.what()));
  }
}

std::span<float> floats(const at::Tensor& tensor) {
  return {tensor.data_ptr<float>(), static_cast<size_t>(tensor.numel())};
}

// The tensor as bytes, row-major.
Payload bytes_of(const at::Tensor& tensor) {
  const at::Tensor flat = tensor.contiguous();
  const auto* begin = static_cast<const std::byte*>(flat.data_ptr());
  return {begin, begin + flat.nbytes()};
}

struct Moments {
  at::Tensor first, second;
};

// What a micro-batch keeps from its forward to its backward pass.
struct InFlight {
  at::Tensor input;   // tokens, or a leaf whose gradient goes to the previous stage
  at::Tensor output;  // hidden states or the scaled loss; undefined once dropped for recomputation
};

class TorchKernels : public runtime::Kernels {
 public:
  TorchKernels(const plan::Plan& plan, const plan::Placement& place, StageModule module,
               ByteData data)
      : plan_(plan),
        stage_(place.stage),
        replica_(place.replica),
        first_(stage_ == 0),
        last_(static_cast<size_t>(stage_) + 1 == plan.stages.size()),
        drops_(schedule::shape_of(plan).recompute[static_cast<size_t>(stage_)]),
        module_(std::move(module)),
        data_(std::move(data)) {
    for (const Parameter& parameter : module_.parameters()) {
      moments_.push_back({at::zeros_like(parameter.value), at::zeros_like(parameter.value)});
    }
  }

  Status join_replicas(const runtime::Replicas& replicas) override;
  Status begin_iteration(int64_t iteration) override;
  Result<Payload> forward(int64_t microbatch, Payload input) override;
  Status recompute(int64_t microbatch) override;
  Result<Payload> backward(int64_t microbatch, Payload output_gradient) override;
  Status reduce_gradients() override;
  Status update() override;
  std::optional<double> loss() const override { return loss_; }

  int64_t evaluation_batches() const override { return evaluation_share().count; }
  Result<Payload> evaluate(int64_t batch, Payload input) override;
  std::optional<double> evaluation_loss() const override;

  Result<std::string> weights_digest() const override;
  Result<std::vector<NamedTensor>> save() const override;
  Status load(std::span<const NamedTensor> tensors) override;

 private:
  // Bytes 0 .. sequence - 1 (offset 0) or 1 .. sequence (offset 1) of each window of a micro-batch.
  template <class WindowOf>
  at::Tensor tokens(WindowOf window_of, int64_t offset) const;
  at::Tensor training_tokens(int64_t microbatch, int64_t offset) const;
  runtime::Share evaluation_share() const;  // in batches
  at::Tensor evaluation_tokens(int64_t batch, int64_t offset) const;
  Result<at::Tensor> hidden_from(const Payload& bytes, const char* what) const;
  at::Tensor run(int64_t microbatch, const at::Tensor& input) const;
  Result<InFlight*> in_flight(int64_t microbatch, const char* doing);
  Status check_gradients(const char* doing) const;

  plan::Plan plan_;
  int32_t stage_, replica_;
  bool first_, last_, drops_;
  StageModule module_;
  ByteData data_;
  std::unique_ptr<ReplicaGroup> group_;  // none where the Plan has no replicas
  std::vector<Moments> moments_;         // one per parameter
  int64_t adam_step_ = 0;
  int64_t iteration_ = 0;
  std::map<int64_t, InFlight> in_flight_;
  double loss_sum_ = 0;
  int64_t losses_ = 0;
  std::optional<double> loss_;
  double evaluation_sum_ = 0;
  int64_t evaluations_ = 0;
};

// --- data ----------------------------------------------------------------------------------------

template <class WindowOf>
at::Tensor TorchKernels::tokens(WindowOf window_of, int64_t offset) const {
  const int64_t samples = plan_.training.micro_batch, sequence = plan_.model.sequence;
  at::Tensor tokens = at::empty({samples, sequence}, at::kLong);
  int64_t* token = tokens.data_ptr<int64_t>();
  for (int64_t i = 0; i < samples; ++i) {
    const std::span<const uint8_t> window = window_of(i).subspan(static_cast<size_t>(offset));
    for (int64_t j = 0; j < sequence; ++j) *token++ = window[static_cast<size_t>(j)];
  }
  return tokens;
}

// Replica by replica, the micro-batches of all pipelines are those of one that has the whole batch.
at::Tensor TorchKernels::training_tokens(int64_t microbatch, int64_t offset) const {
  const int64_t first = (replica_ * plan_.microbatches() + microbatch) * plan_.training.micro_batch;
  return tokens([&](int64_t i) { return data_.training_window(iteration_, first + i); }, offset);
}

runtime::Share TorchKernels::evaluation_share() const {
  return runtime::share_of(data_.evaluation_windows() / plan_.training.micro_batch, replica_,
                           plan_.replicas());
}

at::Tensor TorchKernels::evaluation_tokens(int64_t batch, int64_t offset) const {
  const int64_t first = (evaluation_share().first + batch) * plan_.training.micro_batch;
  return tokens([&](int64_t i) { return data_.evaluation_window(first + i); }, offset);
}

Result<at::Tensor> TorchKernels::hidden_from(const Payload& bytes, const char* what) const {
  const int64_t rows = plan_.training.micro_batch * plan_.model.sequence;
  at::Tensor tensor = at::empty({rows, plan_.model.hidden}, at::kFloat);
  if (bytes.size() != tensor.nbytes()) {
    return failed(fmt::format("stage {} received {} of {} bytes, expected {}", stage_, what,
                              bytes.size(), tensor.nbytes()),
                  "start every rank with the same Plan");
  }
  std::memcpy(tensor.data_ptr(), bytes.data(), bytes.size());
  return tensor;
}

// --- replicas ------------------------------------------------------------------------------------

Status TorchKernels::join_replicas(const runtime::Replicas& replicas) {
  return guarded("joining the replicas", [&]() -> Status {
    group_ = TRY(ReplicaGroup::join(replicas, stage_));
    return {};
  });
}

// --- one iteration -------------------------------------------------------------------------------

Status TorchKernels::begin_iteration(int64_t iteration) {
  iteration_ = iteration;
  in_flight_.clear();
  loss_sum_ = 0;
  losses_ = 0;
  loss_.reset();
  // Undefined gradients: the first backward pass hands over its own instead of adding to zeros.
  for (Parameter& parameter : module_.parameters()) parameter.value.mutable_grad() = at::Tensor();
  return {};
}

at::Tensor TorchKernels::run(int64_t microbatch, const at::Tensor& input) const {
  const at::Tensor output = module_.forward(input);
  if (!last_) return output;
  return StageModule::loss(output, training_tokens(microbatch, 1).view({-1}));
}

Result<Payload> TorchKernels::forward(int64_t microbatch, Payload input) {
  return guarded("computing a forward pass", [&]() -> Result<Payload> {
    InFlight kept;
    if (first_) {
      kept.input = training_tokens(microbatch, 0);
    } else {
      kept.input = TRY(hidden_from(input, "activations"));
      kept.input.set_requires_grad(true);
    }
    at::AutoGradMode grad_mode(!drops_);
    at::Tensor output = run(microbatch, kept.input);
    Payload payload;
    if (last_) {
      loss_sum_ += static_cast<double>(output.item<float>());
      ++losses_;
    } else {
      payload = bytes_of(output.detach());
    }
    if (!drops_) kept.output = std::move(output);
    in_flight_[microbatch] = std::move(kept);
    return payload;
  });
}

Result<InFlight*> TorchKernels::in_flight(int64_t microbatch, const char* doing) {
  const auto found = in_flight_.find(microbatch);
  if (found == in_flight_.end()) {
    return failed(fmt::format("stage {}: {} of micro-batch {} before its forward pass", stage_,
                              doing, microbatch));
  }
  return &found->second;
}

Status TorchKernels::recompute(int64_t microbatch) {
  return guarded("computing a forward pass again", [&]() -> Status {
    InFlight* kept = TRY(in_flight(microbatch, "recomputation"));
    if (!kept->output.defined()) kept->output = run(microbatch, kept->input);
    return {};
  });
}

Result<Payload> TorchKernels::backward(int64_t microbatch, Payload output_gradient) {
  return guarded("computing a backward pass", [&]() -> Result<Payload> {
    InFlight* kept = TRY(in_flight(microbatch, "backward pass"));
    if (!kept->output.defined()) {
      return failed(
          fmt::format("stage {}: backward pass of micro-batch {} before its recomputation", stage_,
                      microbatch));
    }
    at::Tensor gradient;
    if (last_) {
      const int64_t microbatches = plan_.microbatches() * plan_.replicas();
      gradient = at::full({}, 1.0 / static_cast<double>(microbatches), at::kFloat);
    } else {
      gradient = TRY(hidden_from(output_gradient, "gradients"));
    }
    torch::autograd::backward({kept->output}, {gradient});
    Payload payload;
    if (!first_) payload = bytes_of(kept->input.grad());
    in_flight_.erase(microbatch);
    return payload;
  });
}

Status TorchKernels::check_gradients(const char* doing) const {
  for (const Parameter& parameter : module_.parameters()) {
    if (!parameter.value.grad().defined()) {
      return failed(
          fmt::format("{} has no gradient: {} before any backward pass", parameter.name, doing));
    }
  }
  return {};
}

// One tensor of all gradients, which become views of it as they are copied: so no gradient is there
// twice, and none is copied back.
Status TorchKernels::reduce_gradients() {
  return guarded("summing the gradients", [&]() -> Status {
    TRY(check_gradients("sum"));
    if (!group_) return failed(fmt::format("stage {} has not joined its replicas", stage_));
    int64_t size = 0;
    for (const Parameter& parameter : module_.parameters()) size += parameter.value.numel();
    at::Tensor all = at::empty({size}, at::kFloat);
    int64_t begin = 0;
    for (Parameter& parameter : module_.parameters()) {
      const int64_t end = begin + parameter.value.numel();
      at::Tensor part = all.slice(0, begin, end).view(parameter.value.sizes());
      part.copy_(parameter.value.grad());
      parameter.value.mutable_grad() = part;
      begin = end;
    }
    return group_->sum(all);
  });
}

Status TorchKernels::update() {
  return guarded("updating the weights", [&]() -> Status {
    if (last_) {
      loss_ = loss_sum_ / static_cast<double>(std::max<int64_t>(losses_, 1));
      if (!std::isfinite(*loss_)) {
        return failed(fmt::format("the loss of iteration {} is {}", iteration_, std::abs(*loss_)),
                      "a smaller optimizer.learning_rate, or more optimizer.warmup_steps");
      }
    }
    TRY(check_gradients("update"));
    ++adam_step_;
    AdamStep step{.learning_rate = learning_rate(plan_.optimizer, plan_.run.steps, iteration_),
                  .beta1 = plan_.optimizer.beta1,
                  .beta2 = plan_.optimizer.beta2,
                  .epsilon = plan_.optimizer.epsilon,
                  .step = adam_step_};
    for (size_t i = 0; i < module_.parameters().size(); ++i) {
      Parameter& parameter = module_.parameters()[i];
      const at::Tensor gradient = parameter.value.grad().contiguous();
      step.weight_decay = parameter.decays ? plan_.optimizer.weight_decay : 0;
      adamw(step, floats(parameter.value), floats(gradient), floats(moments_[i].first),
            floats(moments_[i].second));
    }
    return {};
  });
}

// --- evaluation ----------------------------------------------------------------------------------

Result<Payload> TorchKernels::evaluate(int64_t batch, Payload input) {
  return guarded("evaluating", [&]() -> Result<Payload> {
    if (batch == 0) {
      evaluation_sum_ = 0;
      evaluations_ = 0;
    }
    const at::NoGradGuard no_gradients;
    const at::Tensor in =
        first_ ? evaluation_tokens(batch, 0) : TRY(hidden_from(input, "activations"));
    const at::Tensor output = module_.forward(in);
    if (!last_) return bytes_of(output);
    const at::Tensor loss = StageModule::loss(output, evaluation_tokens(batch, 1).view({-1}));
    evaluation_sum_ += static_cast<double>(loss.item<float>());
    ++evaluations_;
    return Payload{};
  });
}

std::optional<double> TorchKernels::evaluation_loss() const {
  if (!last_ || evaluations_ == 0) return std::nullopt;
  return evaluation_sum_ / static_cast<double>(evaluations_);
}

// --- checkpoints and digests ---------------------------------------------------------------------
// ---------------------------------------------------------------------------------

constexpr const char* kFirstMoment = ".adam.first_moment";
constexpr const char* kSecondMoment = ".adam.second_moment";
constexpr const char* kStep = ".adam.step";

Result<std::vector<NamedTensor>> TorchKernels::save() const {
  return guarded("copying the weights", [&]() -> Result<std::vector<NamedTensor>> {
    std::vector<NamedTensor> tensors;
    for (size_t i = 0; i < moments_.size(); ++i) {
      const Parameter& parameter = module_.parameters()[i];
      const std::vector<int64_t> shape = parameter.value.sizes().vec();
      const auto add = [&](const std::string& name, const at::Tensor& values) {
        tensors.push_back({name, "F32", shape, bytes_of(values.detach())});
      };
      add(parameter.name, parameter.value);
      add(parameter.name + kFirstMoment, moments_[i].first);
      add(parameter.name + kSecondMoment, moments_[i].second);
      Payload step(sizeof adam_step_);
      std::memcpy(step.data(), &adam_step_, sizeof adam_step_);
      tensors.push_back({parameter.name + kStep, "I64", {1}, std::move(step)});
    }
    return tensors;
  });
}

Result<std::string> TorchKernels::weights_digest() const {
  return guarded("hashing the weights", [&]() -> Result<std::string> {
    RunningDigest digest;
    const auto add = [&](const at::Tensor& values) {
      const std::span<float> numbers = floats(values);
      digest.add({reinterpret_cast<const char*>(numbers.data()), numbers.size_bytes()});
    };
    for (size_t i = 0; i < moments_.size(); ++i) {
      add(module_.parameters()[i].value);
      add(moments_[i].first);
      add(moments_[i].second);
    }
    digest.add({reinterpret_cast<const char*>(&adam_step_), sizeof adam_step_});
    return digest.text();
  });
}

using ByName = std::map<std::string_view, const NamedTensor*>;

Result<const NamedTensor*> find(const ByName& tensors, const std::string& name,
                                const std::string& dtype, const std::vector<int64_t>& shape) {
  const auto found = tensors.find(name);
  if (found == tensors.end()) {
    return unusable(fmt::format("the checkpoint lacks the tensor {}", name),
                    "a checkpoint of the same model, complete with every rank's part");
  }
  const NamedTensor& tensor = *found->second;
  int64_t size = dtype == "I64" ? 8 : 4;
  for (const int64_t extent : shape) size *= extent;
  if (tensor.dtype != dtype || tensor.shape != shape ||
      tensor.bytes.size() != static_cast<size_t>(size)) {
    return unusable(fmt::format("the checkpoint's {} is {} [{}] in {} bytes, the model has {} [{}]",
                                name, tensor.dtype, fmt::join(tensor.shape, ", "),
                                tensor.bytes.size(), dtype, fmt::join(shape, ", ")),
                    "a checkpoint of the same model");
  }
  return &tensor;
}

Status TorchKernels::load(std::span<const NamedTensor> tensors) {
  return guarded("loading a checkpoint", [&]() -> Status {
    ByName by_name;
    for (const NamedTensor& tensor : tensors) by_name[tensor.name] = &tensor;
    // All found before any is copied: a checkpoint that does not fit changes nothing.
    std::vector<std::pair<at::Tensor, const NamedTensor*>> copies;
    std::optional<int64_t> step;
    for (size_t i = 0; i < moments_.size(); ++i) {
      const Parameter& parameter = module_.parameters()[i];
      const std::vector<int64_t> shape = parameter.value.sizes().vec();
      const std::string& name = parameter.name;
      copies.emplace_back(parameter.value, TRY(find(by_name, name, "F32", shape)));
      copies.emplace_back(moments_[i].first, TRY(find(by_name, name + kFirstMoment, "F32", shape)));
      copies.emplace_back(moments_[i].second,
                          TRY(find(by_name, name + kSecondMoment, "F32", shape)));
      int64_t its_step = 0;
      std::memcpy(&its_step, TRY(find(by_name, name + kStep, "I64", {1}))->bytes.data(), 8);
      if (its_step < 0 || (step && *step != its_step)) {
        return unusable(fmt::format("the checkpoint's {}{} is {}, other parameters are at {}", name,
                                    kStep, its_step, step.value_or(0)),
                        "parts that were written at the same iteration");
      }
      step = its_step;
    }
    for (const auto& [to, from] : copies) {
      std::memcpy(to.data_ptr(), from->bytes.data(), from->bytes.size());
    }
    adam_step_ = step.value_or(0);
    return {};
  });
}

// --- what can be computed ------------------------------------------------------------------------

Status check_plan(const plan::Plan& plan, int32_t rank) {
  if (rank < 0 || static_cast<size_t>(rank) >= plan.ranks.size()) {
    return unusable(fmt::format("rank {}: the Plan has ranks 0 to {}", rank,
                                static_cast<int64_t>(plan.ranks.size()) - 1));
  }
  const cluster::Device& device = plan.device_of(rank);
  if (device.kind != cluster::DeviceKind::kCpu) {
    return unusable(
        fmt::format("datacenter \"{}\": device = \"{}\" cannot compute here",
                    plan.datacenter_of(rank).name, device.name),
        "device = \"cpu\", or \"emulated:<catalog name>\" for durations without results");
  }
  if (plan.training.precision != plan::Precision::kFp32) {
    return unusable("training.precision: a cpu computes in fp32 only", "precision = \"fp32\"");
  }
  if (plan.training.recompute == model::Recompute::kSelective) {
    return unusable(
        "training.recompute = \"selective\": a cpu recomputes a whole stage or nothing yet",
        "recompute = \"none\" or \"full\"");
  }
  const plan::Parallelism& p = plan.parallelism;
  const std::pair<const char*, int64_t> degrees[] = {{"tensor", p.tensor},
                                                     {"context", p.context},
                                                     {"expert", p.expert},
                                                     {"virtual_stages", p.virtual_stages}};
  for (const auto& [name, degree] : degrees) {
    if (degree != 1) {
      return unusable(fmt::format("parallelism.{} = {}: training here knows pipeline stages "
                                  "and their replicas only",
                                  name, degree),
                      fmt::format("{} = 1", name));
    }
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<runtime::Kernels>> make_torch_kernels(const plan::Plan& plan, int32_t rank) {
  using Made = Result<std::unique_ptr<runtime::Kernels>>;
  return guarded("preparing a stage", [&]() -> Made {
    TRY(check_plan(plan, rank));
    TRY(check_blas());
    compat::use_one_thread();
    use_one_blas_thread();
    const plan::Placement& place = plan.ranks[static_cast<size_t>(rank)];
    // Stages in the middle read no tokens, but all must agree on the number of evaluation batches.
    ByteData data = TRY(ByteData::open(plan));
    StageModule module = TRY(StageModule::create(
        plan.model, plan.stages[static_cast<size_t>(place.stage)].slice, plan.run.seed));
    return std::make_unique<TorchKernels>(plan, place, std::move(module), std::move(data));
  });
}

}  // namespace tombolo::train
