// The sections of a job file that a Plan takes over as they are.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/fields.h"
#include "spec/layout/parallelism.h"
#include "spec/model/model.h"
#include "spec/plan/data_settings.h"

namespace tombolo::plan {

enum class Precision { kFp32, kBf16, kFp16, kFp8 };
constexpr auto enum_names(Precision) {
  return std::to_array<EnumName<Precision>>({{Precision::kFp32, "fp32"},
                                             {Precision::kBf16, "bf16"},
                                             {Precision::kFp16, "fp16"},
                                             {Precision::kFp8, "fp8"}});
}
// Of weights and activations in memory: fp8 is the precision of matrix products only.
constexpr double element_bytes(Precision precision) {
  return precision == Precision::kFp32 ? 4 : 2;
}
// Software that trains, by release: `megatron` is today's Megatron-Core on every device,
// `megatron-2022` the Megatron-LM of papers of that year, whose attention is not fused. Each has
// constants of its own for times and memory (predict/cost/constants); what it documents stands here.
struct Stack {
  const char* name;
  // Takes more tensor ranks than the model has heads of keys and values, each held by several
  // (Megatron-Core: num_query_groups may divide the tensor degree).
  bool replicates_kv_heads;
  // Sums the gradients of weights in bf16 (and fp8) in float32. Those of fp16 and of fp32 all sum as
  // they are.
  bool sums_bf16_in_fp32;
};
inline constexpr Stack kStacks[] = {
    // --bf16 turns on --accumulate-allreduce-grads-in-fp32 (Megatron-LM, training/arguments.py).
    {"megatron", true, true},
    {"megatron-2022", false, true},
    // BF16_Optimizer reduces the float32 gradients that it accumulates (DeepSpeed).
    {"megatron-deepspeed", false, true},
    // mixed_precision_reduce = "float32", the default (torchtitan).
    {"torchtitan", false, true},
    // mixed_precision: PURE, parameters, gradients and buffers in 16 bits (Composer, for MPT).
    {"fsdp", false, false},
    // grad_reduce_in_fp32 = False in its recipes for speed (NeMo, Megatron-Bridge).
    {"nemo", true, false},
    // Ours: on CPUs float32, which is what the trainer sends (gradient_bytes, decisions.h).
    {"tombolo", false, false},
};

// Null where there is no such stack.
constexpr const Stack* find_stack(std::string_view name) {
  for (const Stack& stack : kStacks) {
    if (stack.name == name) return &stack;
  }
  return nullptr;
}

struct Training {
  int64_t global_batch = 1;  // sequences per iteration
  int64_t micro_batch = 1;   // sequences per microbatch
  Precision precision = Precision::kBf16;
  model::Recompute recompute = model::Recompute::kNone;
  std::string stack = "tombolo";              // whose software constants
  double optimizer_bytes_per_parameter = 16;  // weights, gradients and optimizer state together

  bool operator==(const Training&) const = default;
};

// How the learning rate continues after its linear warm-up (perform/update/learning_rate.h).
enum class RateRule {
  kCosine,    // half a cosine down to learning_rate_min, which the last step uses
  kConstant,  // stays; learning_rate_min is ignored
  kLinear,    // a straight line down to learning_rate_min, which the last step uses
  kWsd,  // warm-up, stable, decay: stays, and goes down a straight line in the last decay_steps
};
constexpr auto enum_names(RateRule) {
  return std::to_array<EnumName<RateRule>>({{RateRule::kCosine, "cosine"},
                                            {RateRule::kConstant, "constant"},
                                            {RateRule::kLinear, "linear"},
                                            {RateRule::kWsd, "wsd"}});
}

enum class OptimizerName {
  kAdamW,
  kSgd,   // with momentum
  kMuon,  // the matrices of layers; everything else by AdamW
};
constexpr auto enum_names(OptimizerName) {
  return std::to_array<EnumName<OptimizerName>>({{OptimizerName::kAdamW, "adamw"},
                                                 {OptimizerName::kSgd, "sgd"},
                                                 {OptimizerName::kMuon, "muon"}});
}

// AdamW with linear warm-up, by default then cosine decay, as in most published runs.
struct Optimizer {
  double learning_rate = 3e-4;
  double learning_rate_min = 3e-5;
  int64_t warmup_steps = 10;
  std::optional<RateRule> rule;         // left out: cosine
  std::optional<int64_t> decay_steps;   // of wsd; left out: a tenth of the run's steps
  std::optional<bool> decay_embedding;  // left out: the embeddings' matrices decay as others do
  std::optional<OptimizerName> name;    // left out: AdamW
  std::optional<double> momentum;       // left out: 0.9 for SGD, 0.95 for Muon
  std::optional<bool> nesterov;         // left out: no for SGD, yes for Muon
  // The norm of all gradients together is at most this, and an update with a gradient that is not
  // finite is left out. Left out: neither is checked.
  std::optional<double> clip_norm;
  double beta1 = 0.9;
  double beta2 = 0.95;
  double epsilon = 1e-8;
  double weight_decay = 0.1;  // on matrices, not on norms and biases

  RateRule rule_in_use() const { return rule.value_or(RateRule::kCosine); }
  OptimizerName name_in_use() const { return name.value_or(OptimizerName::kAdamW); }

  bool operator==(const Optimizer&) const = default;
};

struct Run {
  int64_t steps = 1;
  uint64_t seed = 1;
  int64_t evaluate_every = 0;  // steps; 0: only after the last one
  int64_t compare_replicas_every =
      10;  // steps: hash of all weights, equal on all replicas; 0: never
  // Emulated runs only: payloads, rates and TCP windows are divided by it, times stay as they are,
  // so that many "accelerators" run on few cores.
  double byte_scale = 1;
  // Folder with pretrained weights to begin with (perform/weights), on every host; left out: drawn.
  std::optional<std::string> init;
  // Of each rank that computes on a cpu; 0: as many as are worth it, measured (perform/train); left
  // out: one.
  std::optional<int64_t> threads;
  bool operator==(const Run&) const = default;
};

struct Checkpoint {
  std::string directory;
  int64_t every = 0;  // steps; 0: never
  int64_t keep = 2;   // this many of the newest; older ones are removed
  bool operator==(const Checkpoint&) const = default;
};

template <class Archive>
void describe(Archive& a, Training& t) {
  a.required("global_batch", t.global_batch, "sequences per iteration");
  a.optional("micro_batch", t.micro_batch,
             "sequences per microbatch; \"auto\": tombolo plan chooses");
  a.optional("precision", t.precision, "of weights and activations; fp8: of matrix products only");
  a.optional("recompute", t.recompute,
             "what the backward pass computes again instead of keeping it: nothing, the attention "
             "core, or whole layers; \"auto\": tombolo plan chooses");
  a.optional("stack", t.stack,
             "software whose measured constants predictions use: megatron, megatron-2022, "
             "megatron-deepspeed, torchtitan, fsdp, nemo or tombolo");
  a.optional("optimizer_bytes_per_parameter", t.optimizer_bytes_per_parameter,
             "weights, gradients and optimizer state together, in bytes");
  a.check(t.global_batch >= 1 && t.global_batch <= 100'000'000, "global_batch",
          "must lie between 1 and 100000000");
  a.check(t.micro_batch >= 1 && t.micro_batch <= t.global_batch, "micro_batch",
          fmt::format("must lie between 1 and global_batch = {}", t.global_batch));
  std::vector<std::string_view> stacks;
  for (const Stack& stack : kStacks) stacks.emplace_back(stack.name);
  a.check(find_stack(t.stack) != nullptr, "stack", "is not a known software stack",
          fmt::format("one of {}", fmt::join(stacks, ", ")));
  a.check(t.optimizer_bytes_per_parameter >= 0 && t.optimizer_bytes_per_parameter <= 1000,
          "optimizer_bytes_per_parameter", "must lie between 0 and 1000");
}

template <class Archive>
void describe(Archive& a, Optimizer& o) {
  a.optional("learning_rate", o.learning_rate, "after the warm-up");
  a.optional("learning_rate_min", o.learning_rate_min, "that the rule ends at");
  a.optional("warmup_steps", o.warmup_steps, "steps of linear warm-up");
  a.optional("rule", o.rule, "how the rate continues after the warm-up; left out: cosine");
  a.optional("decay_steps", o.decay_steps,
             "last steps of wsd, in which the rate falls; left out: a tenth of the run's steps");
  a.optional("decay_embedding", o.decay_embedding,
             "whether weight decay acts on embeddings; left out: true");
  a.optional("name", o.name,
             "left out: adamw; muon acts on the matrices of layers, adamw on everything else");
  a.optional("momentum", o.momentum, "of sgd and muon; left out: 0.9 and 0.95");
  a.optional("nesterov", o.nesterov, "of sgd and muon; left out: false and true");
  a.optional("clip_norm", o.clip_norm,
             "the norm of all gradients together is at most this, and an update with a gradient "
             "that is not finite is left out; left out: not looked at");
  const bool has_momentum = o.name_in_use() != OptimizerName::kAdamW;
  a.check(!o.momentum || has_momentum, "momentum", "needs name = \"sgd\" or \"muon\"");
  a.check(o.momentum.value_or(0) >= 0 && o.momentum.value_or(0) < 1, "momentum",
          "must lie in [0, 1)");
  a.check(!o.nesterov || has_momentum, "nesterov", "needs name = \"sgd\" or \"muon\"");
  a.check(o.clip_norm.value_or(1) > 0, "clip_norm", "must be positive");
  a.optional("beta1", o.beta1, "of adamw");
  a.optional("beta2", o.beta2, "of adamw");
  a.optional("epsilon", o.epsilon, "of adamw");
  a.optional("weight_decay", o.weight_decay, "on matrices, not on norms and biases");
  a.check(o.learning_rate > 0, "learning_rate", "must be positive");
  a.check(o.learning_rate_min >= 0 && o.learning_rate_min <= o.learning_rate, "learning_rate_min",
          "must lie between 0 and learning_rate");
  a.check(o.warmup_steps >= 0, "warmup_steps", "must not be negative");
  a.check(!o.decay_steps || o.rule_in_use() == RateRule::kWsd, "decay_steps",
          "needs rule = \"wsd\": the other rules have no steps of decay");
  a.check(o.decay_steps.value_or(1) >= 1, "decay_steps", "must be at least 1");
  a.check(o.beta1 >= 0 && o.beta1 < 1, "beta1", "must lie in [0, 1)");
  a.check(o.beta2 >= 0 && o.beta2 < 1, "beta2", "must lie in [0, 1)");
  a.check(o.epsilon > 0, "epsilon", "must be positive");
  a.check(o.weight_decay >= 0, "weight_decay", "must not be negative");
}

template <class Archive>
void describe(Archive& a, Run& run) {
  a.optional("steps", run.steps, "iterations of the run");
  a.optional("seed", run.seed, "of initial weights and of the order of samples");
  a.optional("evaluate_every", run.evaluate_every,
             "steps between evaluations; 0: only after the last step");
  a.optional("compare_replicas_every", run.compare_replicas_every,
             "steps between comparisons of a hash of all weights over replicas; 0: never");
  a.optional(
      "byte_scale", run.byte_scale,
      "emulated runs: payloads, rates and TCP windows are divided by it, times stay as they are");
  a.optional("init", run.init,
             "folder with config.json and safetensors to begin with, on every host; left out: "
             "weights are drawn");
  a.check(!run.init || !run.init->empty(), "init", "is empty",
          "a folder with config.json and model.safetensors");
  a.optional(
      "threads", run.threads,
      "of each rank that computes on a CPU; 0: as many as are worth it, measured; left out: 1");
  a.check(run.threads.value_or(1) >= 0 && run.threads.value_or(1) <= 1024, "threads",
          "must lie between 0 (measured) and 1024");
  a.check(run.steps >= 1, "steps", "must be at least 1");
  a.check(run.evaluate_every >= 0, "evaluate_every", "must not be negative");
  a.check(run.compare_replicas_every >= 0, "compare_replicas_every", "must not be negative");
  a.check(run.byte_scale >= 1 && run.byte_scale <= 1e6, "byte_scale",
          "must lie between 1 and 1000000");
}

template <class Archive>
void describe(Archive& a, Checkpoint& checkpoint) {
  a.required("directory", checkpoint.directory, "folder for checkpoints, on every host");
  a.required("every", checkpoint.every, "steps between checkpoints; 0: never");
  a.optional("keep", checkpoint.keep, "how many of the newest are kept");
  a.check(checkpoint.every >= 0, "every", "must not be negative");
  a.check(checkpoint.keep >= 1, "keep", "must be at least 1");
}

// [selection].order: in which order datacenters are filled with stages.
enum class DatacenterOrder {
  kAvailability,  // most GPUs first
  kPrice,         // cheapest GPUs first
  kDistance,      // the largest first, then always the one nearest to the last, by latency
  kFile,          // as the cluster file names them
};
constexpr auto enum_names(DatacenterOrder) {
  return std::to_array<EnumName<DatacenterOrder>>({{DatacenterOrder::kAvailability, "availability"},
                                                   {DatacenterOrder::kPrice, "price"},
                                                   {DatacenterOrder::kDistance, "distance"},
                                                   {DatacenterOrder::kFile, "file"}});
}

// [selection]: what a person tells `tombolo select` about the choice of datacenters. What is left
// out is derived from the model, the devices and the links. The letters are those of Atlas (Palak
// et al. 2024, section 4.5).
struct Selection {
  std::optional<int64_t> partitions;  // P: stages of a pipeline, a GPU each
  std::optional<int64_t>
      microbatches;  // M: of each pipeline, however many; else they share the batch
  std::optional<double> communication_to_compute;  // C: a WAN transfer over a forward pass
  std::optional<int64_t> pipelines_per_cell;       // left out: C, rounded up
  DatacenterOrder order = DatacenterOrder::kAvailability;
  std::vector<std::string> must;      // datacenters that hold at least one partition
  std::vector<std::string> must_not;  // datacenters that hold none

  bool operator==(const Selection&) const = default;
};

template <class Archive>
void describe(Archive& a, Selection& s) {
  a.optional("partitions", s.partitions, "stages of a pipeline, one GPU each; left out: derived");
  a.optional("micro_batches", s.microbatches,
             "of each pipeline, whatever their number; left out: pipelines share the batch");
  a.optional("communication_to_compute", s.communication_to_compute,
             "duration of a WAN transfer over that of a forward pass; left out: derived");
  a.optional("pipelines_per_cell", s.pipelines_per_cell,
             "left out: communication_to_compute, rounded up");
  a.optional("order", s.order, "in which datacenters are filled with stages");
  a.optional("must", s.must, "datacenters that hold at least one stage");
  a.optional("must_not", s.must_not, "datacenters that hold none");
  const auto within = [](const std::optional<int64_t>& number, int64_t max) {
    return !number || (*number >= 1 && *number <= max);
  };
  a.check(within(s.partitions, 100'000), "partitions", "must lie between 1 and 100000");
  a.check(within(s.microbatches, 1'000'000), "micro_batches", "must lie between 1 and 1000000");
  a.check(!s.communication_to_compute ||
              (*s.communication_to_compute > 0 && *s.communication_to_compute <= 10'000),
          "communication_to_compute", "must lie in (0, 10000]",
          "4: a WAN transfer takes four times as long as a forward pass");
  a.check(within(s.pipelines_per_cell, 10'000), "pipelines_per_cell",
          "must lie between 1 and 10000");
}

}  // namespace tombolo::plan
