#include "perform/train/torch_kernels.h"

#include <cmath>
#include <cstring>
#include <map>
#include <utility>

#include "base/hash.h"
#include "perform/train/adamw.h"
#include "perform/train/blas_check.h"
#include "perform/train/byte_data.h"
#include "perform/train/replica_group.h"
#include "perform/train/stage_module.h"
#include "spec/schedule/schedule.h"

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

// What a micro-batch keeps on a stage from its forward to its backward pass; from I to W the weight
// gradients alone. They are declared first, for they outlive the graph.
struct InFlight {
  std::unique_ptr<WeightGradients> gradients = std::make_unique<WeightGradients>();
  at::Tensor input;   // tokens, or a leaf whose gradient goes to the previous stage
  at::Tensor output;  // hidden states or the scaled loss; undefined once dropped for recomputation
};

// One of this rank's stages.
struct Held {
  int32_t index = 0;  // in the Plan
  bool first = false, last = false;
  bool drops = false;  // activations, to recompute them
  StageModule module;
  std::vector<Moments> moments = {};  // one per parameter
  int64_t adam_step = 0;
  std::map<int64_t, InFlight> in_flight = {};  // by micro-batch
};

class TorchKernels : public runtime::Kernels {
 public:
  TorchKernels(const plan::Plan& plan, int32_t replica, std::vector<Held> stages, ByteData data)
      : plan_(plan), replica_(replica), stages_(std::move(stages)), data_(std::move(data)) {
    for (Held& held : stages_) {
      for (const Parameter& parameter : held.module.parameters()) {
        held.moments.push_back({at::zeros_like(parameter.value), at::zeros_like(parameter.value)});
      }
    }
  }

  Status join_replicas(const runtime::Replicas& replicas) override;
  Status begin_iteration(int64_t iteration) override;
  Result<Payload> forward(int32_t stage, int64_t microbatch, Payload input) override;
  Status recompute(int32_t stage, int64_t microbatch) override;
  Result<Payload> backward(int32_t stage, int64_t microbatch, Payload output_gradient) override;
  Result<Payload> backward_input(int32_t stage, int64_t microbatch,
                                 Payload output_gradient) override;
  Status backward_weight(int32_t stage, int64_t microbatch) override;
  Status reduce_gradients(int32_t stage) override;
  Status update(int32_t stage) override;
  std::optional<double> loss() const override { return loss_; }

  int64_t evaluation_batches() const override { return evaluation_share().count; }
  Result<Payload> evaluate(int32_t stage, int64_t batch, Payload input) override;
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
  Held& held(int32_t stage);
  Result<at::Tensor> hidden_from(const Payload& bytes, int32_t stage, const char* what) const;
  void run(const Held& held, int64_t microbatch, InFlight& kept) const;
  Result<InFlight*> in_flight(Held& held, int64_t microbatch, const char* doing);
  Result<Payload> go_back(Held& held, InFlight& kept, int64_t microbatch, Payload output_gradient);
  Status check_gradients(const Held& held, const char* doing) const;

  plan::Plan plan_;
  int32_t replica_;
  std::vector<Held> stages_;  // ascending
  ByteData data_;
  std::unique_ptr<ReplicaGroup> group_;  // none where the Plan has no replicas
  int64_t iteration_ = 0;
  double loss_sum_ = 0;
  int64_t losses_ = 0;
  std::optional<double> loss_;
  double evaluation_sum_ = 0;
  int64_t evaluations_ = 0;
};

Held& TorchKernels::held(int32_t stage) {
  for (Held& held : stages_) {
    if (held.index == stage) return held;
  }
  TORCH_CHECK(false, "stage ", stage, " is not of this rank");
}

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

Result<at::Tensor> TorchKernels::hidden_from(const Payload& bytes, int32_t stage,
                                             const char* what) const {
  const int64_t rows = plan_.training.micro_batch * plan_.model.sequence;
  at::Tensor tensor = at::empty({rows, plan_.model.hidden}, at::kFloat);
  if (bytes.size() != tensor.nbytes()) {
    return failed(fmt::format("stage {} received {} of {} bytes, expected {}", stage, what,
                              bytes.size(), tensor.nbytes()),
                  "start every rank with the same Plan");
  }
  std::memcpy(tensor.data_ptr(), bytes.data(), bytes.size());
  return tensor;
}

// --- replicas ------------------------------------------------------------------------------------

Status TorchKernels::join_replicas(const runtime::Replicas& replicas) {
  return guarded("joining the replicas", [&]() -> Status {
    group_ = TRY(ReplicaGroup::join(replicas, stages_.front().index));
    return {};
  });
}

// --- one iteration -------------------------------------------------------------------------------

Status TorchKernels::begin_iteration(int64_t iteration) {
  iteration_ = iteration;
  loss_sum_ = 0;
  losses_ = 0;
  loss_.reset();
  for (Held& held : stages_) {
    held.in_flight.clear();
    // Undefined gradients: the first backward pass hands over its own instead of adding to zeros.
    for (Parameter& parameter : held.module.parameters()) {
      parameter.value.mutable_grad() = at::Tensor();
    }
  }
  return {};
}

void TorchKernels::run(const Held& held, int64_t microbatch, InFlight& kept) const {
  kept.output = held.module.forward(kept.input, kept.gradients.get());
  if (!held.last) return;
  kept.output = StageModule::loss(kept.output, training_tokens(microbatch, 1).view({-1}));
}

Result<Payload> TorchKernels::forward(int32_t stage, int64_t microbatch, Payload input) {
  return guarded("computing a forward pass", [&]() -> Result<Payload> {
    Held& own = held(stage);
    InFlight kept;
    if (own.first) {
      kept.input = training_tokens(microbatch, 0);
    } else {
      kept.input = TRY(hidden_from(input, stage, "activations"));
      kept.input.set_requires_grad(true);
    }
    at::AutoGradMode grad_mode(!own.drops);
    run(own, microbatch, kept);
    Payload payload;
    if (own.last) {
      loss_sum_ += static_cast<double>(kept.output.item<float>());
      ++losses_;
    } else {
      payload = bytes_of(kept.output.detach());
    }
    if (own.drops) {
      kept.output = at::Tensor();
      *kept.gradients = {};
    }
    own.in_flight[microbatch] = std::move(kept);
    return payload;
  });
}

Result<InFlight*> TorchKernels::in_flight(Held& held, int64_t microbatch, const char* doing) {
  const auto found = held.in_flight.find(microbatch);
  if (found == held.in_flight.end()) {
    return failed(fmt::format("stage {}: {} of micro-batch {} before its forward pass", held.index,
                              doing, microbatch));
  }
  return &found->second;
}

Status TorchKernels::recompute(int32_t stage, int64_t microbatch) {
  return guarded("computing a forward pass again", [&]() -> Status {
    Held& own = held(stage);
    InFlight* kept = TRY(in_flight(own, microbatch, "recomputation"));
    if (!kept->output.defined()) run(own, microbatch, *kept);
    return {};
  });
}

// Through the graph once; its end is the gradient for the previous stage.
Result<Payload> TorchKernels::go_back(Held& own, InFlight& kept, int64_t microbatch,
                                      Payload output_gradient) {
  if (!kept.output.defined()) {
    return failed(fmt::format("stage {}: backward pass of micro-batch {} before its recomputation",
                              own.index, microbatch));
  }
  at::Tensor gradient;
  if (own.last) {
    const int64_t microbatches = plan_.microbatches() * plan_.replicas();
    gradient = at::full({}, 1.0 / static_cast<double>(microbatches), at::kFloat);
  } else {
    gradient = TRY(hidden_from(output_gradient, own.index, "gradients"));
  }
  torch::autograd::backward({kept.output}, {gradient});
  Payload payload;
  if (!own.first) payload = bytes_of(kept.input.grad());
  return payload;
}

Result<Payload> TorchKernels::backward(int32_t stage, int64_t microbatch, Payload output_gradient) {
  return guarded("computing a backward pass", [&]() -> Result<Payload> {
    Held& own = held(stage);
    InFlight* kept = TRY(in_flight(own, microbatch, "backward pass"));
    Payload payload = TRY(go_back(own, *kept, microbatch, std::move(output_gradient)));
    own.in_flight.erase(microbatch);
    return payload;
  });
}

Result<Payload> TorchKernels::backward_input(int32_t stage, int64_t microbatch,
                                             Payload output_gradient) {
  return guarded("computing the gradient of an input", [&]() -> Result<Payload> {
    Held& own = held(stage);
    InFlight* kept = TRY(in_flight(own, microbatch, "backward pass"));
    kept->gradients->defer();
    Payload payload = TRY(go_back(own, *kept, microbatch, std::move(output_gradient)));
    kept->output = kept->input = at::Tensor();  // and with them the graph
    return payload;
  });
}

Status TorchKernels::backward_weight(int32_t stage, int64_t microbatch) {
  return guarded("computing the gradients of weights", [&]() -> Status {
    Held& own = held(stage);
    InFlight* kept = TRY(in_flight(own, microbatch, "gradients of weights"));
    if (kept->output.defined()) {
      return failed(
          fmt::format("stage {}: the weights' gradients of micro-batch {} before its input's",
                      stage, microbatch));
    }
    kept->gradients->compute();
    own.in_flight.erase(microbatch);
    return {};
  });
}

Status TorchKernels::check_gradients(const Held& held, const char* doing) const {
  for (const Parameter& parameter : held.module.parameters()) {
    if (!parameter.value.grad().defined()) {
      return failed(
          fmt::format("{} has no gradient: {} before any backward pass", parameter.name, doing));
    }
  }
  return {};
}

// One tensor of all gradients, which become views of it as they are copied: so no gradient is there
// twice, and none is copied back.
Status TorchKernels::reduce_gradients(int32_t stage) {
  return guarded("summing the gradients", [&]() -> Status {
    Held& own = held(stage);
    TRY(check_gradients(own, "sum"));
    if (!group_) return failed(fmt::format("stage {} has not joined its replicas", stage));
    int64_t size = 0;
    for (const Parameter& parameter : own.module.parameters()) size += parameter.value.numel();
    at::Tensor all = at::empty({size}, at::kFloat);
    int64_t begin = 0;
    for (Parameter& parameter : own.module.parameters()) {
      const int64_t end = begin + parameter.value.numel();
      at::Tensor part = all.slice(0, begin, end).view(parameter.value.sizes());
      part.copy_(parameter.value.grad());
      parameter.value.mutable_grad() = part;
      begin = end;
    }
    return group_->sum(all);
  });
}

Status TorchKernels::update(int32_t stage) {
  return guarded("updating the weights", [&]() -> Status {
    Held& own = held(stage);
    if (own.last) {
      loss_ = loss_sum_ / static_cast<double>(std::max<int64_t>(losses_, 1));
      if (!std::isfinite(*loss_)) {
        return failed(fmt::format("the loss of iteration {} is {}", iteration_, std::abs(*loss_)),
                      "a smaller optimizer.learning_rate, or more optimizer.warmup_steps");
      }
    }
    TRY(check_gradients(own, "update"));
    ++own.adam_step;
    AdamStep step{.learning_rate = learning_rate(plan_.optimizer, plan_.run.steps, iteration_),
                  .beta1 = plan_.optimizer.beta1,
                  .beta2 = plan_.optimizer.beta2,
                  .epsilon = plan_.optimizer.epsilon,
                  .step = own.adam_step};
    for (size_t i = 0; i < own.module.parameters().size(); ++i) {
      Parameter& parameter = own.module.parameters()[i];
      const at::Tensor gradient = parameter.value.grad().contiguous();
      step.weight_decay = parameter.decays ? plan_.optimizer.weight_decay : 0;
      adamw(step, floats(parameter.value), floats(gradient), floats(own.moments[i].first),
            floats(own.moments[i].second));
    }
    return {};
  });
}

// --- evaluation ----------------------------------------------------------------------------------

Result<Payload> TorchKernels::evaluate(int32_t stage, int64_t batch, Payload input) {
  return guarded("evaluating", [&]() -> Result<Payload> {
    const Held& own = held(stage);
    const at::NoGradGuard no_gradients;
    const at::Tensor in =
        own.first ? evaluation_tokens(batch, 0) : TRY(hidden_from(input, stage, "activations"));
    const at::Tensor output = own.module.forward(in);
    if (!own.last) return bytes_of(output);
    if (batch == 0) {
      evaluation_sum_ = 0;
      evaluations_ = 0;
    }
    const at::Tensor loss = StageModule::loss(output, evaluation_tokens(batch, 1).view({-1}));
    evaluation_sum_ += static_cast<double>(loss.item<float>());
    ++evaluations_;
    return Payload{};
  });
}

std::optional<double> TorchKernels::evaluation_loss() const {
  if (!stages_.back().last || evaluations_ == 0) return std::nullopt;
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
    for (const Held& held : stages_) {
      for (size_t i = 0; i < held.moments.size(); ++i) {
        const Parameter& parameter = held.module.parameters()[i];
        const std::vector<int64_t> shape = parameter.value.sizes().vec();
        const auto add = [&](const std::string& name, const at::Tensor& values) {
          tensors.push_back({name, "F32", shape, bytes_of(values.detach())});
        };
        add(parameter.name, parameter.value);
        add(parameter.name + kFirstMoment, held.moments[i].first);
        add(parameter.name + kSecondMoment, held.moments[i].second);
        Payload step(sizeof held.adam_step);
        std::memcpy(step.data(), &held.adam_step, sizeof held.adam_step);
        tensors.push_back({parameter.name + kStep, "I64", {1}, std::move(step)});
      }
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
    for (const Held& held : stages_) {
      for (size_t i = 0; i < held.moments.size(); ++i) {
        add(held.module.parameters()[i].value);
        add(held.moments[i].first);
        add(held.moments[i].second);
      }
      digest.add({reinterpret_cast<const char*>(&held.adam_step), sizeof held.adam_step});
    }
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
    const auto plan_copies = [&](const Parameter& parameter, const Moments& moments) -> Status {
      const std::vector<int64_t> shape = parameter.value.sizes().vec();
      const std::string& name = parameter.name;
      copies.emplace_back(parameter.value, TRY(find(by_name, name, "F32", shape)));
      copies.emplace_back(moments.first, TRY(find(by_name, name + kFirstMoment, "F32", shape)));
      copies.emplace_back(moments.second, TRY(find(by_name, name + kSecondMoment, "F32", shape)));
      int64_t its_step = 0;
      std::memcpy(&its_step, TRY(find(by_name, name + kStep, "I64", {1}))->bytes.data(), 8);
      if (its_step < 0 || (step && *step != its_step)) {
        return unusable(fmt::format("the checkpoint's {}{} is {}, other parameters are at {}", name,
                                    kStep, its_step, step.value_or(0)),
                        "parts that were written at the same iteration");
      }
      step = its_step;
      return {};
    };
    for (const Held& held : stages_) {
      for (size_t i = 0; i < held.moments.size(); ++i) {
        TRY(plan_copies(held.module.parameters()[i], held.moments[i]));
      }
    }
    for (const auto& [to, from] : copies) {
      std::memcpy(to.data_ptr(), from->bytes.data(), from->bytes.size());
    }
    for (Held& held : stages_) held.adam_step = step.value_or(0);
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
  const std::pair<const char*, int64_t> degrees[] = {
      {"tensor", p.tensor}, {"context", p.context}, {"expert", p.expert}};
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
    const schedule::Shape shape = schedule::shape_of(plan);
    std::vector<Held> stages;
    for (const int32_t stage : shape.stages_at(place.stage)) {
      const model::Slice& slice = plan.stages[static_cast<size_t>(stage)].slice;
      stages.push_back({.index = stage,
                        .first = stage == 0,
                        .last = stage + 1 == shape.stages,
                        .drops = shape.recomputes(stage),
                        .module = TRY(StageModule::create(plan.model, slice, plan.run.seed))});
    }
    return std::make_unique<TorchKernels>(plan, place.replica, std::move(stages), std::move(data));
  });
}

}  // namespace tombolo::train
