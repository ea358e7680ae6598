#include "perform/train/torch_kernels.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <utility>

#include "base/hash.h"
#include "perform/runtime/messenger.h"
#include "perform/runtime/perform.h"
#include "perform/train/blas_check.h"
#include "perform/train/kept_memory.h"
#include "perform/train/replica_group.h"
#include "perform/train/samples.h"
#include "perform/train/stage_module.h"
#include "perform/train/threads.h"
#include "perform/update/adamw.h"
#include "perform/update/clip.h"
#include "perform/update/learning_rate.h"
#include "perform/update/momentum.h"
#include "perform/update/muon.h"
#include "perform/weights/weight_folder.h"
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

// An optimizer's state of a parameter: AdamW has both, the momentum of SGD and Muon is the first.
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

constexpr const char* kEmbedding = "embedding.weight";

// One of this rank's stages.
struct Held {
  int32_t index = 0;  // in the Plan
  bool first = false, last = false;
  bool drops = false;  // activations, to recompute them
  StageModule module;
  std::vector<Moments> moments = {};  // one per parameter
  int64_t updates = 0;
  std::map<int64_t, InFlight> in_flight = {};  // by micro-batch
};

// Norms and biases never do; the embeddings as the job says.
bool decays(const plan::Optimizer& optimizer, const Parameter& parameter) {
  const bool embeds = parameter.name == "embedding.weight" || parameter.name == "positions.weight";
  return parameter.decays && (optimizer.decay_embedding.value_or(true) || !embeds);
}

// Who updates this parameter: Muon leaves all but the matrices of layers to AdamW.
plan::OptimizerName optimizer_of(const plan::Optimizer& optimizer, const Parameter& parameter) {
  const plan::OptimizerName name = optimizer.name_in_use();
  const bool in_layer = parameter.name.starts_with("layers.") && parameter.value.dim() == 2;
  return name == plan::OptimizerName::kMuon && !in_layer ? plan::OptimizerName::kAdamW : name;
}

// As checkpoints name it behind the parameter's name. Of undefined tensors there are none.
using NamedMoments = std::vector<std::pair<const char*, at::Tensor>>;
NamedMoments named(const Moments& moments, plan::OptimizerName optimizer) {
  switch (optimizer) {
    case plan::OptimizerName::kSgd:
      return {{".sgd.momentum", moments.first}};
    case plan::OptimizerName::kMuon:
      return {{".muon.momentum", moments.first}};
    case plan::OptimizerName::kAdamW:
      break;
  }
  return {{".adam.first_moment", moments.first}, {".adam.second_moment", moments.second}};
}

const char* step_name(plan::OptimizerName optimizer) {
  return optimizer == plan::OptimizerName::kSgd    ? ".sgd.step"
         : optimizer == plan::OptimizerName::kMuon ? ".muon.step"
                                                   : ".adam.step";
}

class TorchKernels : public runtime::Kernels {
 public:
  TorchKernels(const plan::Plan& plan, int32_t replica, std::vector<Held> stages,
               std::optional<Samples> samples, int64_t threads)
      : plan_(plan),
        replica_(replica),
        stages_(std::move(stages)),
        samples_(std::move(samples)),
        threads_(threads) {
    if (samples_) evaluation_batches_ = evaluation_share().count;
    for (Held& held : stages_) {
      for (const Parameter& parameter : held.module.parameters()) {
        Moments& moments = held.moments.emplace_back();
        moments.first = at::zeros_like(parameter.value);
        if (optimizer(parameter) == plan::OptimizerName::kAdamW)
          moments.second = at::zeros_like(parameter.value);
      }
    }
  }

  int64_t threads() const override { return threads_; }
  Status join_replicas(const runtime::Replicas& replicas) override;
  void join_other_end(const runtime::OtherEnd& other) override { other_end_ = other; }
  Status begin_anew() override;
  Result<Payload> agree_on_data(Payload facts) override;
  Status begin_iteration(int64_t iteration) override;
  Result<Payload> forward(int32_t stage, int64_t microbatch, Payload input) override;
  Status recompute(int32_t stage, int64_t microbatch) override;
  Result<Payload> backward(int32_t stage, int64_t microbatch, Payload output_gradient) override;
  Result<Payload> backward_input(int32_t stage, int64_t microbatch,
                                 Payload output_gradient) override;
  Status backward_weight(int32_t stage, int64_t microbatch) override;
  Status reduce_gradients(int32_t stage) override;
  Result<std::optional<double>> gradient_squares() override;
  void scale_gradients(double factor) override { gradient_factor_ = factor; }
  Status update(int32_t stage) override;
  std::optional<double> loss() const override { return loss_; }

  int64_t evaluation_batches() const override { return evaluation_batches_; }
  Result<Payload> evaluate(int32_t stage, int64_t batch, Payload input) override;
  std::optional<double> evaluation_loss() const override;

  Result<std::string> weights_digest() const override;
  Result<std::vector<runtime::TensorView>> state() const override;
  Status load(const runtime::TensorSource& tensors) override;

 private:
  // Tokens 0 .. sequence - 1 (offset 0) or 1 .. sequence (offset 1) of each sample of a
  // micro-batch.
  template <class Read>
  Result<at::Tensor> tokens(Read read, int64_t offset) const;
  Result<at::Tensor> training_tokens(int64_t microbatch, int64_t offset) const;
  runtime::Share evaluation_share() const;  // in batches
  Result<at::Tensor> evaluation_tokens(int64_t batch, int64_t offset) const;
  Held& held(int32_t stage);
  Result<at::Tensor> hidden_from(const Payload& bytes, int32_t stage, const char* what) const;
  Status run(const Held& held, int64_t microbatch, InFlight& kept) const;
  Result<InFlight*> in_flight(Held& held, int64_t microbatch, const char* doing);
  Result<Payload> go_back(Held& held, InFlight& kept, int64_t microbatch, Payload output_gradient);
  Status check_gradients(const Held& held, const char* doing) const;
  Parameter* tied(int32_t stage);
  Status sum_tied_gradients();
  plan::OptimizerName optimizer(const Parameter& parameter) const {
    return optimizer_of(plan_.optimizer, parameter);
  }
  void step(const Held& held, const Parameter& parameter, const Moments& moments) const;

  plan::Plan plan_;
  int32_t replica_;
  std::vector<Held> stages_;        // ascending
  std::optional<Samples> samples_;  // of who has the first or the last stage
  int64_t threads_ = 1;
  std::unique_ptr<ReplicaGroup> group_;  // none where the Plan has no replicas
  std::optional<runtime::OtherEnd> other_end_;
  int64_t tied_summed_ = 0;  // the iteration of which the tied gradients are summed
  int64_t iteration_ = 0;
  double gradient_factor_ = 1;
  double loss_sum_ = 0;
  int64_t losses_ = 0;
  std::optional<double> loss_;
  int64_t evaluation_batches_ = 0;
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

template <class Read>
Result<at::Tensor> TorchKernels::tokens(Read read, int64_t offset) const {
  const int64_t samples = plan_.training.micro_batch, sequence = plan_.model.sequence;
  at::Tensor tokens = at::empty({samples, sequence}, at::kLong);
  int64_t* token = tokens.data_ptr<int64_t>();
  std::vector<int64_t> sample(static_cast<size_t>(sequence) + 1);
  for (int64_t i = 0; i < samples; ++i) {
    TRY(read(i, sample));
    token = std::copy_n(sample.begin() + offset, sequence, token);
  }
  return tokens;
}

// Replica by replica, the micro-batches of all pipelines are those of one that has the whole batch.
Result<at::Tensor> TorchKernels::training_tokens(int64_t microbatch, int64_t offset) const {
  const int64_t first = (replica_ * plan_.microbatches() + microbatch) * plan_.training.micro_batch;
  return tokens(
      [&](int64_t i, std::span<int64_t> out) {
        return samples_->training(iteration_, first + i, out);
      },
      offset);
}

runtime::Share TorchKernels::evaluation_share() const {
  return runtime::share_of(samples_->evaluation_windows() / plan_.training.micro_batch,
                           samples_->reader(), samples_->readers());
}

Result<at::Tensor> TorchKernels::evaluation_tokens(int64_t batch, int64_t offset) const {
  const int64_t first = (evaluation_share().first + batch) * plan_.training.micro_batch;
  return tokens(
      [&](int64_t i, std::span<int64_t> out) { return samples_->evaluation(first + i, out); },
      offset);
}

// The number of held-out batches, then the digest of what is read.
Result<Payload> TorchKernels::agree_on_data(Payload facts) {
  constexpr size_t kCount = sizeof evaluation_batches_;
  if (!facts.empty() && facts.size() < kCount) {
    return failed(fmt::format("{} bytes on the data of the first stage", facts.size()),
                  "start every rank with the same Plan");
  }
  if (samples_) {
    const std::string digest = samples_->digest();
    const auto* text = reinterpret_cast<const std::byte*>(digest.data());
    Payload own(kCount);
    std::memcpy(own.data(), &evaluation_batches_, kCount);
    own.insert(own.end(), text, text + digest.size());
    if (facts.empty() || facts == own) return own;
    const auto last_stage = static_cast<int32_t>(plan_.stages.size()) - 1;
    const int32_t first = plan_.rank_of(0, replica_), last = plan_.rank_of(last_stage, replica_);
    return unusable(
        fmt::format("the files of [data] on rank {} in {}, which reads inputs, and on rank {} in "
                    "{}, which reads targets, differ",
                    first, plan_.datacenter_of(first).name, last, plan_.datacenter_of(last).name),
        "copies of the same files at the same paths of both hosts");
  }
  if (!facts.empty()) std::memcpy(&evaluation_batches_, facts.data(), kCount);
  if (evaluation_batches_ < 0) return failed("fewer than no batches to evaluate");
  return facts;
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

// --- first values of others ----------------------------------------------------------------------

// One tensor at a time lies in memory beside the weights.
Status TorchKernels::begin_anew() {
  if (!plan_.run.init) return {};
  return guarded("reading weights", [&]() -> Status {
    const weights::WeightFolder folder = TRY(weights::WeightFolder::open(*plan_.run.init));
    TRY(folder.check(plan_.model));
    for (const Held& held : stages_) {
      for (const Parameter& parameter : held.module.parameters()) {
        TRY(folder.read(parameter.name, parameter.value.sizes().vec(), floats(parameter.value)));
      }
    }
    return {};
  });
}

// --- one iteration -------------------------------------------------------------------------------

Status TorchKernels::begin_iteration(int64_t iteration) {
  iteration_ = iteration;
  gradient_factor_ = 1;
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

Status TorchKernels::run(const Held& held, int64_t microbatch, InFlight& kept) const {
  kept.output = held.module.forward(kept.input, kept.gradients.get());
  if (!held.last) return {};
  const at::Tensor targets = TRY(training_tokens(microbatch, 1));
  kept.output = StageModule::loss(kept.output, targets.view({-1}));
  return {};
}

Result<Payload> TorchKernels::forward(int32_t stage, int64_t microbatch, Payload input) {
  return guarded("computing a forward pass", [&]() -> Result<Payload> {
    Held& own = held(stage);
    InFlight kept;
    if (own.first) {
      kept.input = TRY(training_tokens(microbatch, 0));
    } else {
      kept.input = TRY(hidden_from(input, stage, "activations"));
      kept.input.set_requires_grad(true);
    }
    at::AutoGradMode grad_mode(!own.drops);
    TRY(run(own, microbatch, kept));
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
    if (!kept->output.defined()) TRY(run(own, microbatch, *kept));
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

// The embedding of this rank's first stage, or its copy on the last one; null where there is none.
Parameter* TorchKernels::tied(int32_t stage) {
  for (Held& held : stages_) {
    if (held.index != stage) continue;
    for (Parameter& parameter : held.module.parameters()) {
      if (parameter.name == kEmbedding) return &parameter;
    }
  }
  return nullptr;
}

// Embedding and head are one matrix: where they are two copies, the gradient of both is the sum of
// theirs. a + b and b + a have the same bits, so the copies stay equal, and nobody needs to send
// weights. All gradients of this rank are complete, those of replicas summed.
Status TorchKernels::sum_tied_gradients() {
  const auto last_stage = static_cast<int32_t>(plan_.stages.size()) - 1;
  if (!plan_.model.tied_embeddings || last_stage == 0 || tied_summed_ == iteration_) return {};
  tied_summed_ = iteration_;
  Parameter* first = tied(0);
  Parameter* last = tied(last_stage);
  for (const Parameter* each : {first, last}) {
    if (each && !each->value.grad().defined()) {
      return failed(fmt::format("{} has no gradient: update before any backward pass", each->name));
    }
  }
  if (first && last) {
    const at::Tensor sum = first->value.grad() + last->value.grad();
    first->value.mutable_grad() = sum;
    last->value.mutable_grad() = sum;
    return {};
  }
  Parameter* own = first ? first : last;
  if (!own) return {};
  if (!other_end_) return failed("the ranks of the tied embedding have not met");
  const link::Tag tag{static_cast<uint64_t>(iteration_), runtime::kTiedTensor};
  TRY(other_end_->messenger->send(other_end_->rank, tag, bytes_of(own->value.grad())));
  const link::Received theirs = TRY(other_end_->messenger->receive(other_end_->rank, tag));
  if (theirs.payload.size() != own->value.nbytes()) {
    return failed(fmt::format("a gradient of {} bytes for {}, expected {}", theirs.payload.size(),
                              own->name, own->value.nbytes()),
                  "start every rank with the same Plan");
  }
  at::Tensor gradient = at::empty_like(own->value, at::TensorOptions().requires_grad(false));
  std::memcpy(gradient.data_ptr(), theirs.payload.data(), theirs.payload.size());
  own->value.mutable_grad() = own->value.grad() + gradient;
  return {};
}

// A tied embedding counts once, on the first stage.
Result<std::optional<double>> TorchKernels::gradient_squares() {
  return guarded("measuring the gradients", [&]() -> Result<std::optional<double>> {
    TRY(sum_tied_gradients());
    double sum = 0;
    for (const Held& own : stages_) {
      TRY(check_gradients(own, "norm"));
      for (const Parameter& parameter : own.module.parameters()) {
        if (!parameter.copy) sum += update::squares(floats(parameter.value.grad().contiguous()));
      }
    }
    return sum;
  });
}

Status TorchKernels::update(int32_t stage) {
  return guarded("updating the weights", [&]() -> Status {
    Held& own = held(stage);
    TRY(sum_tied_gradients());
    const bool skips = gradient_factor_ == 0;
    if (own.last) {
      loss_ = loss_sum_ / static_cast<double>(std::max<int64_t>(losses_, 1));
      if (!std::isfinite(*loss_) && !skips) {
        return failed(fmt::format("the loss of iteration {} is {}", iteration_, std::abs(*loss_)),
                      "a smaller optimizer.learning_rate, or more optimizer.warmup_steps");
      }
    }
    TRY(check_gradients(own, "update"));
    if (skips) return {};
    ++own.updates;
    for (size_t i = 0; i < own.module.parameters().size(); ++i) {
      Parameter& parameter = own.module.parameters()[i];
      step(own, parameter, own.moments[i]);
      parameter.value.mutable_grad() = at::Tensor();  // nobody needs it until the next iteration
    }
    return {};
  });
}

void TorchKernels::step(const Held& held, const Parameter& parameter,
                        const Moments& moments) const {
  const plan::Optimizer& wanted = plan_.optimizer;
  const double rate = update::learning_rate(wanted, plan_.run.steps, iteration_);
  const double decay = decays(wanted, parameter) ? wanted.weight_decay : 0;
  at::Tensor gradient = parameter.value.grad().contiguous();
  // Another tensor, because two copies of a tied embedding may have one gradient.
  if (gradient_factor_ != 1) gradient = gradient * gradient_factor_;
  const std::span<float> weights = floats(parameter.value), gradients = floats(gradient);
  switch (optimizer(parameter)) {
    case plan::OptimizerName::kSgd:
      return update::momentum({.learning_rate = rate,
                               .momentum = wanted.momentum.value_or(0.9),
                               .weight_decay = decay,
                               .nesterov = wanted.nesterov.value_or(false)},
                              weights, gradients, floats(moments.first));
    case plan::OptimizerName::kMuon:
      // One learning rate for its matrices and AdamW's rest.
      return update::muon({.learning_rate = rate,
                           .momentum = wanted.momentum.value_or(0.95),
                           .weight_decay = decay,
                           .nesterov = wanted.nesterov.value_or(true),
                           .scaling = update::MuonScaling::kMatchAdamW},
                          parameter.value.size(0), parameter.value.size(1), weights, gradients,
                          floats(moments.first));
    case plan::OptimizerName::kAdamW:
      return update::adamw({.learning_rate = rate,
                            .beta1 = wanted.beta1,
                            .beta2 = wanted.beta2,
                            .epsilon = wanted.epsilon,
                            .weight_decay = decay,
                            .step = held.updates},
                           weights, gradients, floats(moments.first), floats(moments.second));
  }
}

// --- evaluation ----------------------------------------------------------------------------------

Result<Payload> TorchKernels::evaluate(int32_t stage, int64_t batch, Payload input) {
  return guarded("evaluating", [&]() -> Result<Payload> {
    const Held& own = held(stage);
    const at::NoGradGuard no_gradients;
    const at::Tensor in =
        TRY(own.first ? evaluation_tokens(batch, 0) : hidden_from(input, stage, "activations"));
    const at::Tensor output = own.module.forward(in);
    if (!own.last) return bytes_of(output);
    if (batch == 0) {
      evaluation_sum_ = 0;
      evaluations_ = 0;
    }
    const at::Tensor targets = TRY(evaluation_tokens(batch, 1));
    const at::Tensor loss = StageModule::loss(output, targets.view({-1}));
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

// Updates and load() write into the very same tensors.
Result<std::vector<runtime::TensorView>> TorchKernels::state() const {
  using Views = std::vector<runtime::TensorView>;
  return guarded("listing the weights", [&]() -> Result<Views> {
    Views tensors;
    for (const Held& held : stages_) {
      for (size_t i = 0; i < held.moments.size(); ++i) {
        const Parameter& parameter = held.module.parameters()[i];
        if (parameter.copy) continue;
        const std::vector<int64_t> shape = parameter.value.sizes().vec();
        const auto add = [&](const std::string& name, const at::Tensor& values) {
          tensors.push_back({name, "F32", shape, std::as_bytes(floats(values))});
        };
        add(parameter.name, parameter.value);
        const plan::OptimizerName its = optimizer(parameter);
        for (const auto& [name, values] : named(held.moments[i], its))
          add(parameter.name + name, values);
        tensors.push_back({parameter.name + step_name(its),
                           "I64",
                           {1},
                           std::as_bytes(std::span(&held.updates, 1))});
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
        const Parameter& parameter = held.module.parameters()[i];
        add(parameter.value);
        for (const auto& [name, values] : named(held.moments[i], optimizer(parameter))) add(values);
      }
      digest.add({reinterpret_cast<const char*>(&held.updates), sizeof held.updates});
    }
    return digest.text();
  });
}

Result<NamedTensor> find(const runtime::TensorSource& tensors, const std::string& name,
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

Status TorchKernels::load(const runtime::TensorSource& tensors) {
  return guarded("loading a checkpoint", [&]() -> Status {
    std::optional<int64_t> step;
    const auto take = [&](const at::Tensor& to, const std::string& name) -> Status {
      const NamedTensor from = TRY(find(tensors, name, "F32", to.sizes().vec()));
      std::memcpy(to.data_ptr(), from.bytes.data(), from.bytes.size());
      return {};
    };
    const auto take_all = [&](const Parameter& parameter, const Moments& moments) -> Status {
      const std::string& name = parameter.name;
      TRY(take(parameter.value, name));
      const plan::OptimizerName its = optimizer(parameter);
      for (const auto& [moment, values] : named(moments, its)) TRY(take(values, name + moment));
      int64_t its_step = 0;
      const NamedTensor count = TRY(find(tensors, name + step_name(its), "I64", {1}));
      std::memcpy(&its_step, count.bytes.data(), 8);
      if (its_step < 0 || (step && *step != its_step)) {
        return unusable(fmt::format("the checkpoint's {}{} is {}, other parameters are at {}", name,
                                    step_name(its), its_step, step.value_or(0)),
                        "parts that were written at the same iteration");
      }
      step = its_step;
      return {};
    };
    for (const Held& held : stages_) {
      for (size_t i = 0; i < held.moments.size(); ++i) {
        TRY(take_all(held.module.parameters()[i], held.moments[i]));
      }
    }
    for (Held& held : stages_) held.updates = step.value_or(0);
    return {};
  });
}

// --- what can be computed ------------------------------------------------------------------------

// The two ranks that hold copies of a tied embedding must be able to talk to each other.
Status check_tied_ends(const plan::Plan& plan, int32_t rank) {
  const auto stages = static_cast<int32_t>(plan.stages.size());
  const int32_t replica = plan.ranks[static_cast<size_t>(rank)].replica;
  const int32_t first = plan.rank_of(0, replica), last = plan.rank_of(stages - 1, replica);
  if (!plan.model.tied_embeddings || first == last || runtime::other_end(plan, first)) return {};
  return unusable(
      fmt::format("model.tied_embeddings = true: the first stage (in {}) and the last one (in {}) "
                  "hold a copy each, and no link between them is described",
                  plan.datacenter_of(first).name, plan.datacenter_of(last).name),
      "a [[cluster.wan]] between the two, or parallelism.datacenter_per_stage");
}

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
  return check_tied_ends(plan, rank);
}

// What the rank's stages may take at most, by the Plan.
Bytes memory_of(const plan::Plan& plan, const std::vector<int32_t>& stages) {
  Bytes sum = 1_GB;  // logits, and what the Plan does not know
  for (const int32_t index : stages) {
    const plan::Stage& stage = plan.stages[static_cast<size_t>(index)];
    sum += stage.state + stage.workspace + stage.activations * real(plan.microbatches());
  }
  return sum;
}

}  // namespace

Result<std::unique_ptr<runtime::Kernels>> make_torch_kernels(const plan::Plan& plan, int32_t rank) {
  using Made = Result<std::unique_ptr<runtime::Kernels>>;
  return guarded("preparing a stage", [&]() -> Made {
    TRY(check_plan(plan, rank));
    TRY(check_blas());
    const int64_t threads = use_threads(plan, rank);
    const plan::Placement& place = plan.ranks[static_cast<size_t>(rank)];
    const schedule::Shape shape = schedule::shape_of(plan);
    keep_freed_memory(memory_of(plan, shape.stages_at(place.stage)));
    // Weights that are read need not be drawn before.
    const auto seed = plan.run.init ? std::nullopt : std::optional(plan.run.seed);
    const std::vector<int32_t> own = shape.stages_at(place.stage);
    std::optional<Samples> samples;  // stages in the middle see no tokens
    if (own.front() == 0 || own.back() + 1 == shape.stages) {
      samples = TRY(Samples::open(plan, place.replica));
    }
    std::vector<Held> stages;
    for (const int32_t stage : own) {
      const model::Slice& slice = plan.stages[static_cast<size_t>(stage)].slice;
      stages.push_back({.index = stage,
                        .first = stage == 0,
                        .last = stage + 1 == shape.stages,
                        .drops = shape.recomputes(stage),
                        .module = TRY(StageModule::create(plan.model, slice, seed))});
    }
    return std::make_unique<TorchKernels>(plan, place.replica, std::move(stages),
                                          std::move(samples), threads);
  });
}

}  // namespace tombolo::train
