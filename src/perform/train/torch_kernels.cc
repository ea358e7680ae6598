#include "perform/train/torch_kernels.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <map>
#include <numeric>
#include <utility>

#include "perform/kernels/messenger.h"
#include "perform/kernels/pair_kernels.h"
#include "perform/stage/perform.h"
#include "perform/state/checkpoint.h"
#include "perform/train/add_time.h"
#include "perform/train/blas_check.h"
#include "perform/train/check_plan.h"
#include "perform/train/device_stream.h"
#include "perform/train/expert_exchange.h"
#include "perform/train/guarded.h"
#include "perform/train/kept_memory.h"
#include "perform/train/pass_pairs.h"
#include "perform/train/samples.h"
#include "perform/train/shard_collectives.h"
#include "perform/train/sharded_stage.h"
#include "perform/train/stage_module.h"
#include "perform/train/stage_replicas.h"
#include "perform/train/stage_state.h"
#include "perform/train/threads.h"
#include "perform/train/torch_groups.h"
#include "perform/update/clip.h"
#include "perform/update/learning_rate.h"
#include "perform/weights/weight_folder.h"
#include "spec/schedule/schedule.h"

namespace tombolo::train {
namespace {

using kernels::Payload;

// What a microbatch keeps on a shard of a stage from its forward to its backward pass; from I to W the
// weight gradients alone. They are declared first, for they outlive the graph.
struct Pass {
  std::unique_ptr<WeightGradients> gradients = std::make_unique<WeightGradients>();
  at::Tensor input;   // tokens, or a leaf whose gradient goes to the previous stage
  at::Tensor output;  // hidden states or the scaled loss; undefined once dropped for recomputation
  std::unique_ptr<StagePass> operators = {};  // in place of a graph, where operators are arranged
};
struct InFlight {
  std::vector<Pass> shards;
  int32_t strand = 0;  // its passes are this one's
  // Its backward pass computes activations again, operator by operator. Set from recompute() to then.
  bool again = false;

  bool has_output() const { return shards.front().output.defined(); }
  bool may_go_back() const { return again || has_output(); }
};

constexpr const char* kEmbedding = "embedding.weight";

// One of this rank's stages.
struct Held {
  int32_t index = 0;  // in the Plan
  bool first = false, last = false;
  bool drops = false;  // activations, to recompute them
  StageState state;
  std::unique_ptr<ShardedStage> sharded = {};
  bool whole = true;      // values that other replicas update are here
  int64_t backwards = 0;  // of this iteration
  int64_t unsummed = 0;   // of them, since gradients were last summed
  std::vector<at::Tensor> sums =
      {};  // of gradients, by parameter, of those that this replica updates
  std::map<int64_t, InFlight> in_flight = {};  // by microbatch
};

// What all shards made together: hidden states, or their gradients.
at::Tensor joined(const Held& held, std::span<const Pass> passes, at::Tensor Pass::*which) {
  std::vector<at::Tensor> parts;
  parts.reserve(passes.size());
  for (const Pass& pass : passes) parts.push_back((pass.*which).detach());
  return held.sharded->join_hidden(parts);
}

double loss_of(const Held& held, std::span<const Pass> passes) {
  std::vector<double> parts;
  parts.reserve(passes.size());
  for (const Pass& pass : passes) parts.push_back(static_cast<double>(pass.output.item<float>()));
  return held.sharded->join_loss(parts);
}

class TorchKernels : public kernels::Kernels, public kernels::PairKernels {
 public:
  TorchKernels(const plan::Plan& plan, int32_t replica, std::vector<Held> stages,
               StageReplicas::Experts experts, std::optional<Samples> samples, int64_t threads)
      : plan_(plan),
        replica_(replica),
        experts_(std::move(experts)),
        replicas_(plan_, replica, experts_),
        stages_(std::move(stages)),
        samples_(std::move(samples)),
        threads_(threads),
        groups_(plan_, replica_, states_by_number(), [this](int32_t stage) {
          return settle_loss(held(stage), plan_.optimizer.clip_norm.has_value());
        }) {
    if (samples_) evaluation_batches_ = evaluation_share().count;
  }

  // Once, before all else: into the shards that compute them.
  Status cut(const ShardDegrees& degrees);

  kernels::PairKernels* pairs() override { return pairs_ ? this : nullptr; }
  Status co_execute(kernels::PairOfPasses passes, const kernels::PairResults& results) override;

  int64_t threads() const override { return threads_; }
  kernels::ParameterGroups* parameters() override { return &groups_; }
  Status join_replicas(const kernels::Replicas& replicas) override;
  Status begin_anew() override;
  Result<kernels::DataFacts> data_facts() const override;
  void expect_evaluation_batches(int64_t batches) override { evaluation_batches_ = batches; }
  // Between iterations: passes read these numbers, and none runs then.
  void divide_batch(const std::vector<int64_t>& microbatches) override {
    plan_.parallelism.microbatches_per_replica = microbatches;
  }
  Status begin_iteration(int64_t iteration) override;
  Result<Payload> forward(int32_t stage, int64_t microbatch, Payload input) override;
  Status recompute(int32_t stage, int64_t microbatch) override;
  Result<Payload> backward(int32_t stage, int64_t microbatch, Payload output_gradient) override;
  Result<Payload> backward_input(int32_t stage, int64_t microbatch,
                                 Payload output_gradient) override;
  Status backward_weight(int32_t stage, int64_t microbatch) override;
  Status reduce_gradients(int32_t stage) override;
  Result<Payload> tied_gradient() override;
  Status add_tied_gradient(const Payload& theirs) override;
  Result<std::optional<double>> gradient_squares() override;
  void scale_gradients(double factor) override { gradient_factor_ = factor; }
  Status update(int32_t stage) override;
  std::optional<plan::PassCommunication> communicated() const override;
  std::optional<double> loss() const override { return loss_; }
  int64_t state_bytes() const override { return state_bytes_; }

  int64_t evaluation_batches() const override { return evaluation_batches_; }
  Result<Payload> evaluate(int32_t stage, int64_t batch, Payload input) override;
  std::optional<double> evaluation_loss() const override;

  Result<std::string> weights_digest() const override;
  Result<std::vector<kernels::TensorView>> state() const override;
  Status load(const kernels::TensorSource& tensors) override;

 private:
  // Tokens 0 .. sequence - 1 (offset 0) or 1 .. sequence (offset 1) of each sample of a
  // microbatch.
  template <class Read>
  Result<at::Tensor> tokens(Read read, int64_t offset) const;
  Result<at::Tensor> training_tokens(int64_t microbatch, int64_t offset) const;
  kernels::Share evaluation_share() const;  // in batches
  Result<at::Tensor> evaluation_tokens(int64_t batch, int64_t offset) const;
  Held& held(int32_t stage);
  std::map<int32_t, StageState*> states_by_number();
  Status settle_loss(const Held& held, bool may_skip);
  void measure_state();
  Result<at::Tensor> hidden_from(const Payload& bytes, int32_t stage, const char* what) const;
  Result<InFlight> input_of(const Held& held, const Payload& input, int64_t microbatch) const;
  Status run(const Held& held, int64_t microbatch, InFlight& kept) const;
  Result<Payload> go_forth(Held& held, InFlight& kept, int64_t microbatch);
  Result<Payload> finish_forward(Held& own, InFlight& kept);
  Result<InFlight*> in_flight(Held& held, int64_t microbatch, const char* doing);
  Result<at::Tensor> loss_or_hidden_gradient(const Held& held, const InFlight& kept,
                                             int64_t microbatch, const Payload& gradient) const;
  Status begin_operators(const Held& held, int64_t microbatch, InFlight& kept) const;
  Status arrange(kernels::PairOfPasses passes, const kernels::PairResults& results, Held& forth,
                 InFlight& kept, Held& back, InFlight& kept_before);
  std::span<const std::string> planned_order(int32_t forward, int32_t backward) const;
  Status check_orders();
  Status finish_backward(Held& own, const InFlight& kept);
  Payload input_gradient(const Held& own, InFlight& kept);
  Result<Payload> go_back(Held& held, InFlight& kept, int64_t microbatch, Payload output_gradient);
  Parameter* tied(int32_t stage);
  Result<Parameter*> own_end();
  Status sum_tied_copies();
  Status gather_parameters(Held& held);
  // Of a backward pass autograd does not tell when gradients of parameters are complete.
  bool tells_at_the_end(const Held& held) const { return held.sharded->is_cut() || arranges(); }
  bool arranges() const { return pairs_ && pairs_->arranges(); }
  void begin_pass();
  Status need_values(Held& held);
  Status gather_values(Held& held);
  void drop_values(Held& held);
  Status end_backward(Held& held);
  Status scatter_gradients(Held& held);
  bool ties_ranks(const Parameter& parameter) const {
    return plan_.model.tied_embeddings && plan_.stages.size() > 1 && parameter.name == kEmbedding;
  }
  plan::Plan plan_;
  int32_t replica_;
  StageReplicas::Experts experts_;  // by strand; none where all experts are here
  StageReplicas replicas_;          // met where the Plan has several
  std::vector<Held> stages_;        // ascending
  std::optional<Samples> samples_;  // of who has the first or the last stage
  int64_t threads_ = 1;
  int64_t tied_summed_ = 0;  // the iteration of which both copies' gradients are summed here
  int64_t iteration_ = 0;
  double gradient_factor_ = 1;
  int64_t state_bytes_ = 0;
  double loss_sum_ = 0;
  int64_t losses_ = 0;
  std::optional<double> loss_;
  int64_t evaluation_batches_ = 0;
  double evaluation_sum_ = 0;
  int64_t evaluations_ = 0;
  const std::unique_ptr<DeviceStream> stream_ = cpu_stream();
  std::chrono::nanoseconds replicas_spent_ = {};  // in the last pass, on what they share out
  // By strand; none where a stage has one shard.
  std::vector<std::unique_ptr<ShardTeam>> teams_;
  std::vector<std::unique_ptr<ShardCollectives>> collectives_;
  std::unique_ptr<PassPairs> pairs_;  // none where the Plan has no pairs
  TorchGroups groups_;                // the last one: it speaks of the others
};

Held& TorchKernels::held(int32_t stage) {
  for (Held& held : stages_) {
    if (held.index == stage) return held;
  }
  TORCH_CHECK(false, "stage ", stage, " is not of this rank");
}

std::map<int32_t, StageState*> TorchKernels::states_by_number() {
  std::map<int32_t, StageState*> states;
  for (Held& held : stages_) states[held.index] = &held.state;
  return states;
}

Status TorchKernels::cut(const ShardDegrees& degrees) {
  const size_t count = plan_.pairs.empty() ? 1 : PassPairs::kStrands;
  if (count > 1) pairs_ = std::make_unique<PassPairs>();
  std::vector<ShardedStage::Strand> strands(count);
  for (size_t i = 0; i < count; ++i) {
    if (!experts_.empty()) strands[i].experts = experts_[i].get();
    if (degrees.shards() == 1) continue;
    teams_.push_back(std::make_unique<ShardTeam>(static_cast<int32_t>(degrees.shards())));
    collectives_.push_back(std::make_unique<ShardCollectives>(*teams_.back(), degrees));
    strands[i].with = collectives_.back().get();
    if (!experts_.empty()) experts_[i]->serve(*collectives_.back());
  }
  for (Held& held : stages_) {
    held.sharded =
        TRY(ShardedStage::create(held.state.module(), strands, plan_.training.micro_batch));
  }
  // Where shards or experts' ranks meet within layers, there is something to arrange.
  const auto in_operators = [](const Held& held) {
    return StagePass::check(held.sharded->module(0)).has_value();
  };
  const bool meets = degrees.tensor > 1 || !experts_.empty();
  if (pairs_ && meets && std::ranges::all_of(stages_, in_operators)) {
    if (teams_.empty()) teams_.push_back(std::make_unique<ShardTeam>(1));
    std::vector<ShardTeam*> teams;
    for (const auto& each : teams_) teams.push_back(each.get());
    pairs_->arrange(std::move(teams));
    TRY(check_orders());
  }
  return {};
}

// As the Plan has it; empty: none.
std::span<const std::string> TorchKernels::planned_order(int32_t forward, int32_t backward) const {
  for (const plan::PairCost& each : plan_.pairs) {
    if (each.forward == forward && each.backward == backward) return each.order;
  }
  return {};
}

Status TorchKernels::check_orders() {
  for (const Held& forth : stages_) {
    for (const Held& back : stages_) {
      const std::span<const std::string> order = planned_order(forth.index, back.index);
      StagePass forward(forth.sharded->module(0), {}),
          backward(back.sharded->module(0), {.again = back.drops});
      TRY(during(StagePairs::check(forward, backward, order),
                 fmt::format("reading the order of the pair of stages {} and {}", forth.index,
                             back.index)));
    }
  }
  return {};
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
  return tokens.to(stream_->device());
}

// Replica by replica, the microbatches of all pipelines are those of one that has the whole batch.
Result<at::Tensor> TorchKernels::training_tokens(int64_t microbatch, int64_t offset) const {
  const int64_t first =
      (plan_.microbatches_before(replica_) + microbatch) * plan_.training.micro_batch;
  return tokens(
      [&](int64_t i, std::span<int64_t> out) {
        return samples_->training(iteration_, first + i, out);
      },
      offset);
}

// Where replicas meet within passes, each has as many; what is left over is not evaluated.
kernels::Share TorchKernels::evaluation_share() const {
  const int64_t readers = samples_->readers();
  int64_t batches = samples_->evaluation_windows() / plan_.training.micro_batch;
  if (!experts_.empty()) batches -= batches % readers;
  return kernels::share_of(batches, samples_->reader(), readers);
}

Result<at::Tensor> TorchKernels::evaluation_tokens(int64_t batch, int64_t offset) const {
  const int64_t first = (evaluation_share().first + batch) * plan_.training.micro_batch;
  return tokens(
      [&](int64_t i, std::span<int64_t> out) { return samples_->evaluation(first + i, out); },
      offset);
}

Result<kernels::DataFacts> TorchKernels::data_facts() const {
  if (!samples_) return kernels::DataFacts{};
  return kernels::DataFacts{TRY(samples_->files()), evaluation_batches_};
}

Result<at::Tensor> TorchKernels::hidden_from(const Payload& bytes, int32_t stage,
                                             const char* what) const {
  const int64_t rows = plan_.training.micro_batch * plan_.model.sequence;
  const at::ScalarType type = stages_.front().state.module().activation_type();
  const size_t expected = static_cast<size_t>(rows * plan_.model.hidden) * at::elementSize(type);
  if (bytes.size() != expected) {
    return failed(fmt::format("stage {} received {} of {} bytes, expected {}", stage, what,
                              bytes.size(), expected),
                  "start every rank with the same Plan");
  }
  return stream_->upload(bytes, {rows, plan_.model.hidden}, type);
}

// --- replicas ------------------------------------------------------------------------------------

Status TorchKernels::join_replicas(const kernels::Replicas& replicas) {
  return guarded("joining the replicas",
                 [&]() -> Status { return replicas_.join(replicas, stages_.front().index); });
}

// --- pretrained weights --------------------------------------------------------------------------

// In addition to the weights, one tensor at a time lies in memory.
Status TorchKernels::begin_anew() {
  if (!plan_.run.init) return {};
  return guarded("reading weights", [&]() -> Status {
    const weights::WeightFolder folder = TRY(weights::WeightFolder::open(*plan_.run.init));
    TRY(folder.check(plan_.model));
    for (Held& held : stages_) {
      for (const Parameter& parameter : held.state.module().parameters()) {
        const bool here = parameter.has_value();
        const at::Tensor wide =
            here ? parameter.value : at::empty(parameter.value.sizes(), at::kFloat);
        TRY(folder.read(parameter.name, wide.sizes().vec(), floats(wide)));
        if (!here) parameter.half.copy_(wide);
      }
      held.state.module().refresh_copies();
    }
    groups_.begin_anew();
    return {};
  });
}

// --- one iteration -------------------------------------------------------------------------------

Status TorchKernels::begin_iteration(int64_t iteration) {
  iteration_ = iteration;
  for (const auto& each : experts_) each->begin_iteration(iteration);
  gradient_factor_ = 1;
  loss_sum_ = 0;
  losses_ = 0;
  loss_.reset();
  for (Held& held : stages_) {
    held.in_flight.clear();
    // Undefined gradients: the first backward pass hands over its own instead of adding to zeros.
    for (Parameter& parameter : held.state.module().parameters()) {
      parameter.value.mutable_grad() = at::Tensor();
    }
    held.sharded->begin_gradients();
    held.backwards = held.unsummed = 0;
    held.sums.assign(held.state.module().parameters().size(), at::Tensor());
  }
  return {};
}

// --- what replicas share out (ZeRO) --------------------------------------------------------------

// Measured from here on (communicated()).
void TorchKernels::begin_pass() {
  replicas_spent_ = {};
  for (const auto& each : collectives_) each->restart_watch();
  for (const auto& each : experts_) each->restart_watch();
}

// Of the one strand that computed, where passes come one by one.
std::optional<plan::PassCommunication> TorchKernels::communicated() const {
  const bool zero = plan_.parallelism.zero >= 2 && replicas_.have_met();
  if (collectives_.empty() && experts_.empty() && !zero) return std::nullopt;
  const auto time = [](std::chrono::nanoseconds spent) {
    return Seconds{std::chrono::duration<double>(spent).count()};
  };
  plan::PassCommunication spent{.data = time(replicas_spent_)};
  for (const auto& each : experts_) spent.expert += time(each->spent());
  for (const auto& each : collectives_) {
    spent.tensor += time(each->spent(ShardAxis::kTensor));
    spent.context += time(each->spent(ShardAxis::kContext));
  }
  return spent;
}

// ZeRO-3: a stage has all values while a pass computes with it, and from an update to the first pass after it.
Status TorchKernels::need_values(Held& held) {
  if (held.whole) return {};
  const AddTime time(&replicas_spent_);
  return gather_values(held);
}

// From who updates them.
Status TorchKernels::gather_values(Held& held) {
  held.state.restore_shared();
  held.whole = true;
  return replicas_.gather_values(held.state);
}

void TorchKernels::drop_values(Held& held) {
  if (plan_.parallelism.zero < 3 || !replicas_.have_met()) return;
  held.state.drop_shared();
  held.whole = false;
}

// A microbatch's gradients are all there. Those of the last one are summed when the schedule says so.
Status TorchKernels::end_backward(Held& held) {
  ++held.backwards;
  ++held.unsummed;
  const layout::Parallelism& p = plan_.parallelism;
  const bool last = held.backwards == plan_.microbatches_of(replica_);
  if (p.zero < 2 || !replicas_.have_met() || last) return {};
  const bool round = p.zero == 2 && p.virtual_stages > 1 && held.backwards % p.pipeline == 0;
  return p.sums_each_microbatch() || round ? scatter_gradients(held) : Status{};
}

// Each replica gets the sum of what it updates, and no gradient of the others stays.
Status TorchKernels::scatter_gradients(Held& held) {
  const AddTime time(&replicas_spent_);
  measure_state();
  held.unsummed = 0;
  TRY(replicas_.scatter(held.state, held.sums));
  if (held.backwards < plan_.microbatches_of(replica_)) held.sharded->begin_gradients();
  return {};
}

Result<InFlight> TorchKernels::input_of(const Held& held, const Payload& input,
                                        int64_t microbatch) const {
  InFlight kept;
  const at::Tensor whole = TRY(held.first ? training_tokens(microbatch, 0)
                                          : hidden_from(input, held.index, "activations"));
  for (int32_t shard = 0; shard < held.sharded->shards(); ++shard) {
    Pass& pass = kept.shards.emplace_back();
    if (held.sharded->is_cut()) pass.gradients->add_in_place();
    if (held.first) {
      pass.input = held.sharded->tokens_of(shard, whole);
    } else {
      pass.input = held.sharded->hidden_of(shard, whole).detach();
      pass.input.set_requires_grad(true);
    }
  }
  return kept;
}

Status TorchKernels::run(const Held& held, int64_t microbatch, InFlight& kept) const {
  const ShardedStage& sharded = *held.sharded;
  if (arranges()) {
    TRY(begin_operators(held, microbatch, kept));
    sharded.for_each(
        [&](int32_t shard) {
          Pass& pass = kept.shards[static_cast<size_t>(shard)];
          pass.operators->perform_forward();
          pass.output = pass.operators->output();
        },
        kept.strand);
    return {};
  }
  at::Tensor targets;
  if (held.last) targets = TRY(training_tokens(microbatch, 1));
  const StageModule::Need need = groups_.need(held.index);
  sharded.for_each(
      [&](int32_t shard) {
        Pass& pass = kept.shards[static_cast<size_t>(shard)];
        pass.output =
            sharded.module(shard, kept.strand).forward(pass.input, pass.gradients.get(), need);
        if (!held.last) return;
        const at::Tensor its = sharded.tokens_of(shard, targets).view({-1});
        pass.output = sharded.loss(shard, pass.output, its, kept.strand);
      },
      kept.strand);
  return {};
}

// A forward pass that operators perform.
Status TorchKernels::begin_operators(const Held& held, int64_t microbatch, InFlight& kept) const {
  const ShardedStage& sharded = *held.sharded;
  at::Tensor targets;
  if (held.last) targets = TRY(training_tokens(microbatch, 1));
  for (int32_t shard = 0; shard < sharded.shards(); ++shard) {
    Pass& pass = kept.shards[static_cast<size_t>(shard)];
    StagePass::Loss loss;
    if (held.last) {
      const at::Tensor its = sharded.tokens_of(shard, targets).view({-1});
      loss = [&sharded, shard, its, strand = kept.strand](const at::Tensor& logits) {
        return sharded.loss(shard, logits, its, strand);
      };
    }
    pass.operators = std::make_unique<StagePass>(
        sharded.module(shard, kept.strand),
        LayerPassOptions{.in_place = sharded.is_cut(), .again = held.drops});
    pass.operators->begin(pass.input, groups_.need(held.index), std::move(loss));
  }
  return {};
}

Result<Payload> TorchKernels::go_forth(Held& own, InFlight& kept, int64_t microbatch) {
  at::AutoGradMode grad_mode(!own.drops);
  TRY(need_values(own));
  TRY(run(own, microbatch, kept));
  return finish_forward(own, kept);
}

Result<Payload> TorchKernels::finish_forward(Held& own, InFlight& kept) {
  drop_values(own);
  Payload payload;
  if (own.last) {
    loss_sum_ += loss_of(own, kept.shards);
    ++losses_;
  } else {
    payload = stream_->download(joined(own, kept.shards, &Pass::output));
  }
  if (own.drops) {
    for (Pass& pass : kept.shards) {
      pass.output = at::Tensor();
      pass.gradients->forget();
      if (pass.operators) pass.operators->forget_output();
    }
  }
  return payload;
}

Result<Payload> TorchKernels::forward(int32_t stage, int64_t microbatch, Payload input) {
  return guarded("computing a forward pass", [&]() -> Result<Payload> {
    Held& own = held(stage);
    begin_pass();
    InFlight kept = TRY(input_of(own, input, microbatch));
    Payload payload = TRY(go_forth(own, kept, microbatch));
    own.in_flight[microbatch] = std::move(kept);
    return payload;
  });
}

// The forward's microbatch goes with the strand that the backward's is not of. What both have in common changes on
// this thread alone, but for gradients, which are the backward's.
Status TorchKernels::co_execute(kernels::PairOfPasses passes, const kernels::PairResults& results) {
  return guarded("computing two passes at once", [&]() -> Status {
    begin_pass();
    const int64_t of_forward = passes.forward_microbatch, of_backward = passes.backward_microbatch;
    Held &forth = held(passes.forward_stage), &back = held(passes.backward_stage);
    InFlight* kept_before = TRY(in_flight(back, of_backward, "backward pass"));
    InFlight kept = TRY(input_of(forth, passes.input, of_forward));
    kept.strand = 1 - kept_before->strand;
    if (arranges()) {
      TRY(arrange(std::move(passes), results, forth, kept, back, *kept_before));
    } else {
      TRY(pairs_->run({.forward = [&] { return go_forth(forth, kept, of_forward); },
                       .backward =
                           [&] {
                             return go_back(back, *kept_before, of_backward,
                                            std::move(passes.output_gradient));
                           }},
                      results));
    }
    forth.in_flight[of_forward] = std::move(kept);
    back.in_flight.erase(of_backward);
    return end_backward(back);
  });
}

Status TorchKernels::arrange(kernels::PairOfPasses passes, const kernels::PairResults& results,
                             Held& forth, InFlight& kept, Held& back, InFlight& kept_before) {
  const at::Tensor of_output = TRY(loss_or_hidden_gradient(
      back, kept_before, passes.backward_microbatch, passes.output_gradient));
  TRY(need_values(forth));
  TRY(need_values(back));
  TRY(begin_operators(forth, passes.forward_microbatch, kept));
  std::vector<StagePass*> forward, backward;
  for (size_t shard = 0; shard < kept.shards.size(); ++shard) {
    forward.push_back(kept.shards[shard].operators.get());
    backward.push_back(kept_before.shards[shard].operators.get());
    backward.back()->begin_backward(
        back.last ? of_output : back.sharded->hidden_of(static_cast<int32_t>(shard), of_output));
  }
  TRY(pairs_->run(
      forward, backward, planned_order(forth.index, back.index),
      {.forward =
           [&] {
             for (Pass& pass : kept.shards) pass.output = pass.operators->output();
             return finish_forward(forth, kept);
           },
       .backward = [&]() -> Result<Payload> { return input_gradient(back, kept_before); }},
      results));
  return finish_backward(back, kept_before);
}

Result<InFlight*> TorchKernels::in_flight(Held& held, int64_t microbatch, const char* doing) {
  const auto found = held.in_flight.find(microbatch);
  if (found == held.in_flight.end()) {
    return failed(fmt::format("stage {}: {} of microbatch {} before its forward pass", held.index,
                              doing, microbatch));
  }
  return &found->second;
}

Status TorchKernels::recompute(int32_t stage, int64_t microbatch) {
  return guarded("computing a forward pass again", [&]() -> Status {
    Held& own = held(stage);
    begin_pass();
    InFlight* kept = TRY(in_flight(own, microbatch, "recomputation"));
    kept->again = arranges();
    if (kept->again) return {};
    TRY(need_values(own));
    if (!kept->has_output()) TRY(run(own, microbatch, *kept));
    drop_values(own);
    stream_->finish();
    return {};
  });
}

// Of what a pass made, for its backward pass.
Result<at::Tensor> TorchKernels::loss_or_hidden_gradient(const Held& own, const InFlight& kept,
                                                         int64_t microbatch,
                                                         const Payload& gradient) const {
  if (!kept.may_go_back()) {
    return failed(fmt::format("stage {}: backward pass of microbatch {} before its recomputation",
                              own.index, microbatch));
  }
  if (!own.last) return hidden_from(gradient, own.index, "gradients");
  const int64_t microbatches = plan_.training.global_batch / plan_.training.micro_batch;
  return at::full({}, 1.0 / static_cast<double>(microbatches), at::kFloat);
}

// Through the graph once; its end is the gradient for the previous stage.
Result<Payload> TorchKernels::go_back(Held& own, InFlight& kept, int64_t microbatch,
                                      Payload output_gradient) {
  const at::Tensor gradient = TRY(loss_or_hidden_gradient(own, kept, microbatch, output_gradient));
  const ShardedStage& sharded = *own.sharded;
  TRY(need_values(own));
  if (!tells_at_the_end(own)) groups_.begin_backward(own.index);
  sharded.for_each(
      [&](int32_t shard) {
        Pass& pass = kept.shards[static_cast<size_t>(shard)];
        const at::Tensor its = own.last ? gradient : sharded.hidden_of(shard, gradient);
        if (pass.operators) {
          pass.operators->begin_backward(its);
          pass.operators->perform_backward();
        } else {
          torch::autograd::backward({pass.output}, {its});
        }
      },
      kept.strand);
  TRY(finish_backward(own, kept));
  return input_gradient(own, kept);
}

// Its shards are through.
Status TorchKernels::finish_backward(Held& own, const InFlight& kept) {
  own.sharded->fold(kept.strand);
  drop_values(own);
  TRY(groups_.end_backward(own.index, tells_at_the_end(own)));
  if (groups_.are_watched()) measure_state();
  return {};
}

Payload TorchKernels::input_gradient(const Held& own, InFlight& kept) {
  Payload payload;
  if (own.first) return payload;
  for (Pass& pass : kept.shards)
    pass.output = pass.operators ? pass.operators->input_gradient() : pass.input.grad();
  return stream_->download(joined(own, kept.shards, &Pass::output));
}

Result<Payload> TorchKernels::backward(int32_t stage, int64_t microbatch, Payload output_gradient) {
  return guarded("computing a backward pass", [&]() -> Result<Payload> {
    Held& own = held(stage);
    begin_pass();
    InFlight* kept = TRY(in_flight(own, microbatch, "backward pass"));
    Payload payload = TRY(go_back(own, *kept, microbatch, std::move(output_gradient)));
    own.in_flight.erase(microbatch);
    TRY(end_backward(own));
    return payload;
  });
}

Result<Payload> TorchKernels::backward_input(int32_t stage, int64_t microbatch,
                                             Payload output_gradient) {
  return guarded("computing the gradient of an input", [&]() -> Result<Payload> {
    Held& own = held(stage);
    begin_pass();
    InFlight* kept = TRY(in_flight(own, microbatch, "backward pass"));
    for (Pass& pass : kept->shards) {
      pass.gradients->defer();
      if (pass.operators) pass.operators->defer();
    }
    Payload payload = TRY(go_back(own, *kept, microbatch, std::move(output_gradient)));
    for (Pass& pass : kept->shards)
      pass.output = pass.input = at::Tensor();  // and with them the graph
    kept->again = false;
    return payload;
  });
}

Status TorchKernels::backward_weight(int32_t stage, int64_t microbatch) {
  return guarded("computing the gradients of weights", [&]() -> Status {
    Held& own = held(stage);
    begin_pass();
    InFlight* kept = TRY(in_flight(own, microbatch, "gradients of weights"));
    if (kept->may_go_back()) {
      return failed(
          fmt::format("stage {}: the weights' gradients of microbatch {} before its input's", stage,
                      microbatch));
    }
    if (tells_at_the_end(own)) {
      own.sharded->for_each(
          [&](int32_t shard) {
            Pass& pass = kept->shards[static_cast<size_t>(shard)];
            pass.operators ? pass.operators->perform_weights() : pass.gradients->compute();
          },
          kept->strand);
      own.sharded->fold(kept->strand);
      TRY(groups_.end_backward(stage, true));
    } else {
      TRY(groups_.compute(stage, *kept->shards.front().gradients));
    }
    stream_->finish();
    if (groups_.are_watched()) measure_state();
    own.in_flight.erase(microbatch);
    return end_backward(own);
  });
}

Status TorchKernels::reduce_gradients(int32_t stage) {
  return guarded("summing the gradients", [&]() -> Status {
    Held& own = held(stage);
    const bool whole = own.state.owners().empty();
    if (whole) TRY(own.state.check_gradients("sum"));
    if (!replicas_.have_met())
      return failed(fmt::format("stage {} has not joined its replicas", stage));
    if (whole) return replicas_.sum(own.state);
    if (own.unsummed > 0) TRY(scatter_gradients(own));
    std::vector<Parameter>& parameters = own.state.module().parameters();
    for (size_t i = 0; i < parameters.size(); ++i) {
      Parameter& parameter = parameters[i];
      parameter.value.mutable_grad() = std::exchange(own.sums[i], at::Tensor());
      if (!ties_ranks(parameter)) continue;
      // Its other end wants it from each pipeline.
      if (!parameter.value.grad().defined())
        parameter.value.mutable_grad() = at::empty(parameter.value.sizes(), at::kFloat);
      TRY(replicas_.gather(parameter.value.grad(), own.state.owners()[i]));
    }
    return {};
  });
}

// The embedding of this rank's first stage, or its copy on the last one; null where there is none.
Parameter* TorchKernels::tied(int32_t stage) {
  for (Held& held : stages_) {
    if (held.index != stage) continue;
    for (Parameter& parameter : held.state.module().parameters()) {
      if (parameter.name == kEmbedding) return &parameter;
    }
  }
  return nullptr;
}

// Embedding and head are one matrix: where they are two copies, the gradient of both is the sum of
// theirs. a + b and b + a have the same bits, so the copies stay equal, and no rank needs to send
// weights. All gradients of this rank are complete, those of replicas summed. This is the case of
// two copies on one rank.
Status TorchKernels::sum_tied_copies() {
  const auto last_stage = static_cast<int32_t>(plan_.stages.size()) - 1;
  if (!plan_.model.tied_embeddings || last_stage == 0 || tied_summed_ == iteration_) return {};
  tied_summed_ = iteration_;
  Parameter* first = tied(0);
  Parameter* last = tied(last_stage);
  if (!first || !last) return {};
  for (const Parameter* each : {first, last}) {
    if (each->value.grad().defined()) continue;
    return failed(fmt::format("{} has no gradient: update before any backward pass", each->name));
  }
  const at::Tensor sum = first->value.grad() + last->value.grad();
  first->value.mutable_grad() = sum;
  last->value.mutable_grad() = sum;
  return {};
}

// The copy that this rank has, of which another has the other one.
Result<Parameter*> TorchKernels::own_end() {
  Parameter* first = tied(0);
  Parameter* own = first ? first : tied(static_cast<int32_t>(plan_.stages.size()) - 1);
  if (!own) return failed("this rank holds no copy of a tied embedding");
  if (own->value.grad().defined()) return own;
  return failed(fmt::format("{} has no gradient: its sum before any backward pass", own->name));
}

Result<Payload> TorchKernels::tied_gradient() {
  return guarded("sending the gradient of the tied embedding", [&]() -> Result<Payload> {
    return stream_->download(TRY(own_end())->value.grad());
  });
}

Status TorchKernels::add_tied_gradient(const Payload& theirs) {
  return guarded("adding the gradient of the tied embedding", [&]() -> Status {
    Parameter* own = TRY(own_end());
    if (theirs.size() != own->value.nbytes()) {
      return failed(fmt::format("a gradient of {} bytes for {}, expected {}", theirs.size(),
                                own->name, own->value.nbytes()),
                    "start every rank with the same Plan");
    }
    const at::Tensor gradient =
        stream_->upload(theirs, own->value.sizes(), own->value.scalar_type());
    own->value.mutable_grad() = own->value.grad() + gradient;
    return {};
  });
}

// A tied embedding counts once, on the first stage. Squares are added parameter by parameter, whichever replica
// has them, so all replicas get the same bits, and the same as without sharding.
Result<std::optional<double>> TorchKernels::gradient_squares() {
  return guarded("measuring the gradients", [&]() -> Result<std::optional<double>> {
    TRY(sum_tied_copies());
    std::vector<StageReplicas::Number> squares;
    for (const Held& own : stages_) {
      TRY(own.state.check_gradients("norm"));
      const std::vector<Parameter>& parameters = own.state.module().parameters();
      for (size_t i = 0; i < parameters.size(); ++i) {
        const Parameter& parameter = parameters[i];
        if (parameter.copy) continue;
        StageReplicas::Number& its = squares.emplace_back();
        its.owner = own.state.owners().empty() ? replica_ : own.state.owners()[i];
        its.of_expert = parameter.of_expert;
        if (!parameter.elsewhere)
          its.value = update::squares(floats(parameter.value.grad().contiguous()));
      }
    }
    return TRY(replicas_.sum_of(squares));
  });
}

// After an update. A profile of one rank has no group, and no others to hear from.
Status TorchKernels::gather_parameters(Held& held) {
  if (held.state.owners().empty() || !replicas_.have_met()) return {};
  TRY(gather_values(held));
  held.state.module().refresh_copies();
  return {};
}

void TorchKernels::measure_state() {
  int64_t bytes = 0;
  for (const Held& each : stages_) {
    bytes += each.state.bytes() + each.sharded->bytes();
    for (const at::Tensor& sum : each.sums)
      bytes += sum.defined() ? static_cast<int64_t>(sum.nbytes()) : 0;
  }
  state_bytes_ = std::max(state_bytes_, bytes);
}

// All forward passes of the iteration are over. Where the update may be left out, a loss that is no
// number is no failure.
Status TorchKernels::settle_loss(const Held& held, bool may_skip) {
  if (!held.last) return {};
  loss_ = loss_sum_ / static_cast<double>(std::max<int64_t>(losses_, 1));
  if (std::isfinite(*loss_) || may_skip) return {};
  return failed(fmt::format("the loss of iteration {} is {}", iteration_, std::abs(*loss_)),
                "a smaller optimizer.learning_rate, or more optimizer.warmup_steps");
}

Status TorchKernels::update(int32_t stage) {
  return guarded("updating the weights", [&]() -> Status {
    Held& own = held(stage);
    TRY(sum_tied_copies());
    measure_state();
    const bool skips = gradient_factor_ == 0;
    TRY(settle_loss(own, skips));
    TRY(own.state.check_gradients("update"));
    if (skips) return need_values(own);
    own.state.update(
        {.learning_rate = update::learning_rate(plan_.optimizer, plan_.run.steps, iteration_),
         .gradient_factor = gradient_factor_});
    stream_->finish();
    return gather_parameters(own);
  });
}

// --- evaluation ----------------------------------------------------------------------------------

Result<Payload> TorchKernels::evaluate(int32_t stage, int64_t batch, Payload input) {
  return guarded("evaluating", [&]() -> Result<Payload> {
    const Held& own = held(stage);
    const at::NoGradGuard no_gradients;
    const at::Tensor in =
        TRY(own.first ? evaluation_tokens(batch, 0) : hidden_from(input, stage, "activations"));
    const ShardedStage& sharded = *own.sharded;
    at::Tensor targets;
    if (own.last) targets = TRY(evaluation_tokens(batch, 1));
    std::vector<Pass> passes(static_cast<size_t>(sharded.shards()));
    sharded.for_each([&](int32_t shard) {
      const at::Tensor its =
          own.first ? sharded.tokens_of(shard, in) : sharded.hidden_of(shard, in);
      at::Tensor& output = passes[static_cast<size_t>(shard)].output;
      output = sharded.module(shard).forward(its);
      if (!own.last) return;
      output = sharded.loss(shard, output, sharded.tokens_of(shard, targets).view({-1}));
    });
    if (!own.last) return stream_->download(joined(own, passes, &Pass::output));
    if (batch == 0) {
      evaluation_sum_ = 0;
      evaluations_ = 0;
    }
    evaluation_sum_ += loss_of(own, passes);
    ++evaluations_;
    return Payload{};
  });
}

std::optional<double> TorchKernels::evaluation_loss() const {
  if (!stages_.back().last || evaluations_ == 0) return std::nullopt;
  return evaluation_sum_ / static_cast<double>(evaluations_);
}

// --- checkpoints and digests ---------------------------------------------------------------------

Result<std::vector<kernels::TensorView>> TorchKernels::state() const {
  using Views = std::vector<kernels::TensorView>;
  return guarded("listing the weights", [&]() -> Result<Views> {
    Views tensors;
    const int32_t rank = plan_.rank_of(stages_.front().index, replica_);
    if (kernels::writes_parameters(plan_, rank)) {
      for (const Held& held : stages_) held.state.add_views(tensors);
    }
    for (kernels::TensorView& each : tensors) each.name += kernels::parameter_suffix(plan_, rank);
    groups_.add_views(tensors);
    return tensors;
  });
}

Result<std::string> TorchKernels::weights_digest() const {
  return guarded("hashing the weights", [&]() -> Result<std::string> {
    RunningDigest digest;
    if (kernels::steps_locally(plan_)) {
      groups_.add_to(digest);
    } else {
      for (const Held& held : stages_) held.state.add_to(digest);
    }
    return digest.text();
  });
}

Status TorchKernels::load(const kernels::TensorSource& tensors) {
  return guarded("loading a checkpoint", [&]() -> Status {
    std::optional<int64_t> step;
    const int32_t rank = plan_.rank_of(stages_.front().index, replica_);
    const auto own = state::with_suffix(tensors, kernels::parameter_suffix(plan_, rank));
    for (Held& held : stages_) {
      held.state.restore_shared();
      held.whole = true;
    }
    for (Held& held : stages_) TRY(held.state.load(own, step));
    for (Held& held : stages_) held.state.set_updates(step.value_or(0));
    return groups_.load(tensors);
  });
}

// What the rank's stages may take at most, by the Plan.
Bytes memory_of(const plan::Plan& plan, const std::vector<int32_t>& stages, int64_t shards) {
  Bytes sum = 1_GB;  // logits, and what the Plan does not know
  for (const int32_t index : stages) {
    const plan::Stage& stage = plan.stages[static_cast<size_t>(index)];
    sum += (stage.state + stage.workspace + stage.activations * real(plan.microbatches())) *
           real(shards);
  }
  return sum;
}

}  // namespace

Result<std::unique_ptr<kernels::Kernels>> make_torch_kernels(const plan::Plan& plan, int32_t rank,
                                                             const CpuFeatures& cpu) {
  using Made = Result<std::unique_ptr<kernels::Kernels>>;
  return guarded("preparing a stage", [&]() -> Made {
    TRY(check_plan(plan, rank, cpu));
    TRY(check_blas());
    const int64_t threads = use_threads(plan, rank);
    const layout::Placement& place = plan.ranks[static_cast<size_t>(rank)];
    const schedule::PipelineShape shape = schedule::shape_of(plan);
    const ShardDegrees degrees{plan.parallelism.tensor_at(place.stage), plan.parallelism.context,
                               plan.parallelism.sequence_parallel};
    keep_freed_memory(memory_of(plan, shape.stages_at(place.stage), degrees.shards()));
    // Weights that are read need not be drawn before.
    const auto seed = plan.run.init ? std::nullopt : std::optional(plan.run.seed);
    const std::vector<int32_t> own = shape.stages_at(place.stage);
    std::optional<Samples> samples;  // stages in the middle see no tokens
    if (own.front() == 0 || own.back() + 1 == shape.stages) {
      samples = TRY(Samples::open(plan, place.replica));
    }
    StageReplicas::Experts experts;
    const int64_t members = kernels::replicas_per_experts(plan);
    for (int32_t strand = 0; members > 1 && strand < (plan.pairs.empty() ? 1 : PassPairs::kStrands);
         ++strand)
      experts.push_back(std::make_unique<ExpertExchange>(plan.model.experts->count, members,
                                                         place.replica % members, strand));
    ExpertExchange* const first = experts.empty() ? nullptr : experts.front().get();
    const StageReplicas replicas(plan, place.replica, experts);
    StageReplicas::Loads loads;
    std::vector<Held> stages;
    for (const int32_t stage : own) {
      const model::Slice& slice = plan.stages[static_cast<size_t>(stage)].slice;
      StageModule module = TRY(StageModule::create(plan.model, slice, seed, at::kFloat, first));
      if (plan.training.precision == plan::Precision::kBf16) module.compute_in_bf16();
      std::vector<int32_t> owners;
      if (kernels::shards_optimizer(plan)) {
        owners = replicas.owners_of(module, loads);
      } else if (first) {
        for (Parameter& each : module.parameters())
          each.saved_elsewhere = place.replica >= (each.of_expert ? members : 1);
      }
      stages.push_back({.index = stage,
                        .first = stage == 0,
                        .last = stage + 1 == shape.stages,
                        .drops = shape.recomputes(stage),
                        .state = StageState(std::move(module), plan.optimizer, std::move(owners),
                                            place.replica)});
      if (plan.exchange && plan.exchange->is_sparse() && !plan.exchange->visits_all() &&
          kernels::holds_residuals(plan))
        stages.back().state.expect_sparse();
    }
    auto kernels = std::make_unique<TorchKernels>(plan, place.replica, std::move(stages),
                                                  std::move(experts), std::move(samples), threads);
    TRY(kernels->cut(degrees));
    return kernels;
  });
}

std::string libtorch_version() { return TORCH_VERSION; }

}  // namespace tombolo::train
