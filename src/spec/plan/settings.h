// The sections of a job file that a Plan takes over as they are.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/fields.h"
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
// Of gradients in their sum: Megatron-LM sums those of bf16 weights in fp32, those of fp16 and fp32
// weights as they are.
constexpr double gradient_bytes(Precision precision) {
  return precision == Precision::kFp16 ? 2 : 4;
}

// Software that trains, by release: `megatron` is today's Megatron-Core on every device,
// `megatron-2022` the Megatron-LM of papers of that year, whose attention is not fused. Each has
// constants of its own (predict/cost/constants).
inline constexpr const char* kStacks[] = {
    "megatron", "megatron-2022", "megatron-deepspeed", "torchtitan", "fsdp", "nemo", "tombolo"};

struct Training {
  int64_t global_batch = 1;  // sequences per iteration
  int64_t micro_batch = 1;   // sequences per micro-batch
  Precision precision = Precision::kBf16;
  model::Recompute recompute = model::Recompute::kNone;
  std::string stack = "tombolo";              // whose software constants
  double optimizer_bytes_per_parameter = 16;  // weights, gradients and optimizer state together

  bool operator==(const Training&) const = default;
};

// How the learning rate goes on after its linear warm-up (perform/update/learning_rate.h).
enum class RateRule {
  kCosine,    // half a cosine down to learning_rate_min, which the last step uses
  kConstant,  // stays; learning_rate_min plays no part
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
  // The norm of all gradients together is at most so much, and an update with one that is no finite
  // number is left out. Left out: nobody looks at it.
  std::optional<double> clip_norm;
  double beta1 = 0.9;
  double beta2 = 0.95;
  double epsilon = 1e-8;
  double weight_decay = 0.1;  // on matrices, not on norms and biases

  RateRule rule_in_use() const { return rule.value_or(RateRule::kCosine); }
  OptimizerName name_in_use() const { return name.value_or(OptimizerName::kAdamW); }

  bool operator==(const Optimizer&) const = default;
};

// How the pipelines of a DP-cell use the WAN. A DP-cell is a group of pipelines laid out alike over
// the same datacenters (Palak et al. 2024, Atlas, section 4.3).
enum class Sharing {
  kSpatial,   // each pipeline sends over its own node pair, at that pair's rate
  kTemporal,  // one transfer of the cell at a time, over the node pairs of all its pipelines
};
constexpr auto enum_names(Sharing) {
  return std::to_array<EnumName<Sharing>>(
      {{Sharing::kSpatial, "spatial"}, {Sharing::kTemporal, "temporal"}});
}

// Who of a DP-cell goes first (schedule/player.h says exactly what each means).
enum class Discipline {
  kStrict,    // the lower pipeline's transfers before the higher one's
  kReleased,  // first come, first served; pipelines begin one after the other
  kGreedy,    // first come, first served; all begin at once
};
constexpr auto enum_names(Discipline) {
  return std::to_array<EnumName<Discipline>>({{Discipline::kStrict, "strict"},
                                              {Discipline::kReleased, "released"},
                                              {Discipline::kGreedy, "greedy"}});
}

struct Parallelism {
  int64_t tensor = 1;
  int64_t pipeline = 1;
  int64_t data = 1;
  int64_t context = 1;
  int64_t expert = 1;
  int64_t virtual_stages = 1;
  int64_t zero = 0;
  bool sequence_parallel = false;
  std::string order = "tp-cp-ep-dp-pp";  // innermost first
  std::string schedule = "1f1b";
  std::vector<int64_t>
      layers_per_stage;  // left out: as even as possible, the first stages one more
  // Tensor parallelism of each position of the pipeline, where kinds of devices differ; left out:
  // `tensor` everywhere.
  std::vector<int64_t> tensor_per_stage;
  // Where each stage lies: one name for all its replicas, or one for each of them; left out: even
  // shares in the order of the file.
  std::vector<std::vector<std::string>> datacenter_per_stage;
  // Where each pipeline lies with all its stages, instead.
  std::vector<std::string> datacenter_per_replica;
  // Datacenters that hold samples and labels, which must not leave: none but these may have the
  // first and the last stage. Empty: any.
  std::vector<std::string> first_stage_in, last_stage_in;
  // Micro-batches of each pipeline, where they differ; their sum x micro_batch is global_batch, and
  // each sample weighs the same in the gradient. Left out: all alike.
  std::vector<int64_t> microbatches_per_replica;
  // Left out: all pipelines are one DP-cell that shares the WAN in time where schedule = "atlas";
  // elsewhere every pipeline is by itself.
  std::optional<int64_t> cell;  // pipelines per DP-cell; divides data
  std::optional<Sharing> sharing;
  Discipline discipline = Discipline::kReleased;

  int64_t tensor_at(int64_t position) const {
    return tensor_per_stage.empty() ? tensor : tensor_per_stage[static_cast<size_t>(position)];
  }
  // Devices that work as one at a position of a pipeline: its shards. Experts are spread over the
  // devices that context and data parallelism take.
  int64_t shards_at(int64_t position) const { return tensor_at(position) * context; }
  int64_t pipelines_per_cell() const {
    return cell.value_or(sharing_in_use() == Sharing::kTemporal ? data : 1);
  }
  Sharing sharing_in_use() const {
    return sharing.value_or(schedule == "atlas" ? Sharing::kTemporal : Sharing::kSpatial);
  }

  bool operator==(const Parallelism&) const = default;
};

// Whether there are two chunks more than layers: then the first one has the embedding alone and the
// last one the head, as Llama 3 405B was cut, 126 layers into 16 x 8.
inline bool ends_stand_alone(const Parallelism& p, int64_t layers) {
  return p.virtual_stages > 1 && p.pipeline * p.virtual_stages == layers + 2;
}

struct Run {
  int64_t steps = 1;
  uint64_t seed = 1;
  int64_t evaluate_every = 0;  // steps; 0: only after the last one
  int64_t compare_replicas_every =
      10;  // steps: hash of all weights, equal on all replicas; 0: never
  // Emulated runs only: payloads, rates and TCP windows are divided by it, times stay as they are,
  // so that many "accelerators" run on few cores.
  double byte_scale = 1;
  // Folder with weights of others to begin with (perform/weights), on every host; left out: drawn.
  std::optional<std::string> init;
  // Of each rank that computes on a cpu; 0: as many as are worth it, measured (perform/train); left
  // out: one.
  std::optional<int64_t> threads;
  bool operator==(const Run&) const = default;
};

struct Checkpoint {
  std::string directory;
  int64_t every = 0;  // steps; 0: never
  int64_t keep = 2;   // the newest so many; older ones are removed
  bool operator==(const Checkpoint&) const = default;
};

template <class Archive>
void describe(Archive& a, Training& t) {
  a.required("global_batch", t.global_batch);
  a.optional("micro_batch", t.micro_batch);
  a.optional("precision", t.precision);
  a.optional("recompute", t.recompute);
  a.optional("stack", t.stack);
  a.optional("optimizer_bytes_per_parameter", t.optimizer_bytes_per_parameter);
  a.check(t.global_batch >= 1 && t.global_batch <= 100'000'000, "global_batch",
          "must lie between 1 and 100000000");
  a.check(t.micro_batch >= 1 && t.micro_batch <= t.global_batch, "micro_batch",
          fmt::format("must lie between 1 and global_batch = {}", t.global_batch));
  bool known = false;
  for (const char* stack : kStacks) known = known || t.stack == stack;
  a.check(known, "stack", "is not a known software stack",
          fmt::format("one of {}", fmt::join(kStacks, ", ")));
  a.check(t.optimizer_bytes_per_parameter >= 0 && t.optimizer_bytes_per_parameter <= 1000,
          "optimizer_bytes_per_parameter", "must lie between 0 and 1000");
}

template <class Archive>
void describe(Archive& a, Optimizer& o) {
  a.optional("learning_rate", o.learning_rate);
  a.optional("learning_rate_min", o.learning_rate_min);
  a.optional("warmup_steps", o.warmup_steps);
  a.optional("rule", o.rule);
  a.optional("decay_steps", o.decay_steps);
  a.optional("decay_embedding", o.decay_embedding);
  a.optional("name", o.name);
  a.optional("momentum", o.momentum);
  a.optional("nesterov", o.nesterov);
  a.optional("clip_norm", o.clip_norm);
  const bool has_momentum = o.name_in_use() != OptimizerName::kAdamW;
  a.check(!o.momentum || has_momentum, "momentum", "needs name = \"sgd\" or \"muon\"");
  a.check(o.momentum.value_or(0) >= 0 && o.momentum.value_or(0) < 1, "momentum",
          "must lie in [0, 1)");
  a.check(!o.nesterov || has_momentum, "nesterov", "needs name = \"sgd\" or \"muon\"");
  a.check(o.clip_norm.value_or(1) > 0, "clip_norm", "must be positive");
  a.optional("beta1", o.beta1);
  a.optional("beta2", o.beta2);
  a.optional("epsilon", o.epsilon);
  a.optional("weight_decay", o.weight_decay);
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

// For each stage a name, or a list of names: ["lab", ["lab", "cloud"]].
template <class Archive>
void describe_places(Archive& a, const char* key, std::vector<std::vector<std::string>>& places) {
  std::vector<Value> list;
  if constexpr (!Archive::kReads) {
    for (const std::vector<std::string>& names : places) {
      Value::Array each(names.begin(), names.end());
      list.push_back(names.size() == 1 ? Value(names.front()) : Value(std::move(each)));
    }
  }
  a.optional(key, list);
  if constexpr (Archive::kReads) {
    places.clear();
    for (const Value& each : list) {
      const auto* names = each.template get<Value::Array>();
      places.emplace_back();
      for (const Value& name : names ? *names : Value::Array{each}) {
        const auto* text = name.template get<std::string>();
        if (!text)
          return a.refuse(key, "wants names of datacenters", "[\"lab\", [\"lab\", \"cloud\"]]");
        places.back().push_back(*text);
      }
    }
  }
}

template <class Archive>
void describe(Archive& a, Parallelism& p) {
  // A key may say "auto" in a job for `tombolo plan` (open_job.h); all others need a number.
  const auto explicit_number = [&](const char* key, int64_t& number, int64_t max) {
    if constexpr (Archive::kReads) {
      Value raw;
      a.optional(key, raw);
      const std::string* text = raw.template get<std::string>();
      if (text && *text == "auto") {
        a.refuse(key, "asks for a search", "an explicit number, or tombolo plan, which searches");
        return;
      }
    }
    a.optional(key, number);
    a.check(number >= 1 && number <= max, key, fmt::format("must lie between 1 and {}", max));
  };
  explicit_number("tensor", p.tensor, 1'000'000);
  if (!a.has("pipeline")) {
    a.check(false, "pipeline", "is left out, which asks for a search",
            "an explicit number, as in pipeline = 2, or tombolo plan, which searches");
  }
  explicit_number("pipeline", p.pipeline, 100'000);
  explicit_number("data", p.data, 1'000'000);
  explicit_number("context", p.context, 1'000'000);
  explicit_number("expert", p.expert, 1'000'000);
  explicit_number("virtual_stages", p.virtual_stages, 100'000);
  a.optional("zero", p.zero);
  a.optional("sequence_parallel", p.sequence_parallel);
  a.optional("order", p.order);
  a.optional("schedule", p.schedule);
  a.optional("layers_per_stage", p.layers_per_stage);
  a.optional("tensor_per_stage", p.tensor_per_stage);
  describe_places(a, "datacenter_per_stage", p.datacenter_per_stage);
  a.optional("datacenter_per_replica", p.datacenter_per_replica);
  a.optional("microbatches_per_replica", p.microbatches_per_replica);
  a.check(p.microbatches_per_replica.empty() ||
              (std::ssize(p.microbatches_per_replica) == p.data &&
               std::all_of(p.microbatches_per_replica.begin(), p.microbatches_per_replica.end(),
                           [](int64_t m) { return m >= 1 && m <= 100'000'000; })),
          "microbatches_per_replica",
          fmt::format("wanted {} numbers of at least 1, one for each pipeline", p.data));
  a.optional("first_stage_in", p.first_stage_in);
  a.optional("last_stage_in", p.last_stage_in);
  a.optional("cell", p.cell);
  a.optional("sharing", p.sharing);
  a.optional("discipline", p.discipline);
  a.check(!p.cell || (*p.cell >= 1 && *p.cell <= p.data && p.data % *p.cell == 0), "cell",
          fmt::format("must be at least 1 and divide data = {}", p.data));
  const bool enough = p.tensor_per_stage.empty() || std::ssize(p.tensor_per_stage) == p.pipeline;
  bool positive = true;
  for (const int64_t tensor : p.tensor_per_stage) {
    positive = positive && tensor >= 1 && tensor <= 1'000'000;
  }
  a.check(enough && positive, "tensor_per_stage",
          fmt::format("wanted {} numbers of at least 1, one for each stage", p.pipeline));
  a.check(p.datacenter_per_replica.empty() || std::ssize(p.datacenter_per_replica) == p.data,
          "datacenter_per_replica", fmt::format("wanted {} names, one for each pipeline", p.data));
  for (const std::vector<std::string>& names : p.datacenter_per_stage) {
    a.check(names.size() == 1 || std::ssize(names) == p.data, "datacenter_per_stage",
            fmt::format("wanted one name for a stage, or {}, one for each pipeline", p.data));
  }
  a.check(p.datacenter_per_replica.empty() || p.datacenter_per_stage.empty(),
          "datacenter_per_replica", "says where all stages lie, and so does datacenter_per_stage",
          "one of the two");
  a.check(p.zero >= 0 && p.zero <= 3, "zero", "must lie between 0 and 3");
  a.check(!p.order.empty(), "order", "is empty", "\"tp-cp-ep-dp-pp\", innermost first");
  a.check(!p.schedule.empty(), "schedule", "is empty", "\"1f1b\" or \"gpipe\"");
  a.check(p.schedule != "auto", "schedule", "asks for a search",
          "\"1f1b\", \"gpipe\", \"interleaved\" or another by its name");
}

template <class Archive>
void describe(Archive& a, Run& run) {
  a.optional("steps", run.steps);
  a.optional("seed", run.seed);
  a.optional("evaluate_every", run.evaluate_every);
  a.optional("compare_replicas_every", run.compare_replicas_every);
  a.optional("byte_scale", run.byte_scale);
  a.optional("init", run.init);
  a.check(!run.init || !run.init->empty(), "init", "is empty",
          "a folder with config.json and model.safetensors");
  a.optional("threads", run.threads);
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
  a.required("directory", checkpoint.directory);
  a.required("every", checkpoint.every);
  a.optional("keep", checkpoint.keep);
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
      micro_batches;  // M: of each pipeline, however many; else they share the batch
  std::optional<double> communication_to_compute;  // C: a WAN transfer over a forward pass
  std::optional<int64_t> pipelines_per_cell;       // left out: C, rounded up
  DatacenterOrder order = DatacenterOrder::kAvailability;
  std::vector<std::string> must;      // datacenters that hold at least one partition
  std::vector<std::string> must_not;  // datacenters that hold none

  bool operator==(const Selection&) const = default;
};

template <class Archive>
void describe(Archive& a, Selection& s) {
  a.optional("partitions", s.partitions);
  a.optional("micro_batches", s.micro_batches);
  a.optional("communication_to_compute", s.communication_to_compute);
  a.optional("pipelines_per_cell", s.pipelines_per_cell);
  a.optional("order", s.order);
  a.optional("must", s.must);
  a.optional("must_not", s.must_not);
  const auto within = [](const std::optional<int64_t>& number, int64_t max) {
    return !number || (*number >= 1 && *number <= max);
  };
  a.check(within(s.partitions, 100'000), "partitions", "must lie between 1 and 100000");
  a.check(within(s.micro_batches, 1'000'000), "micro_batches", "must lie between 1 and 1000000");
  a.check(!s.communication_to_compute ||
              (*s.communication_to_compute > 0 && *s.communication_to_compute <= 10'000),
          "communication_to_compute", "must lie in (0, 10000]",
          "4: a WAN transfer takes four times as long as a forward pass");
  a.check(within(s.pipelines_per_cell, 10'000), "pipelines_per_cell",
          "must lie between 1 and 10000");
}

// Where the stages of a pipeline lie when a rank holds several of them.
//
// Stages are chunks of the model, in its order; positions are the places of a pipeline, one rank
// each. Usually stage s lies at position s. With virtual stages there are v times as many stages as
// positions:
//
//   line   0 1 2 3          stage s at position s
//   loop   0 1 2 3          round and round: s mod p (Megatron's interleaving)
//          4 5 6 7
//   fold   0 1 2 3          there and back: the last position holds two neighbours (ZB-V, W-shape,
//          7 6 5 4          DualPipeV)
enum class Layout { kLine, kLoop, kFold };

constexpr int32_t position_of(Layout layout, int32_t stage, int32_t positions) {
  if (layout == Layout::kLine || stage < positions) return stage;
  const int32_t within = stage % positions;
  const bool back = layout == Layout::kFold && (stage / positions) % 2 == 1;
  return back ? positions - 1 - within : within;
}

// What a schedule asks for, by its name in job files; names that are not known are lines.
constexpr Layout layout_of(std::string_view schedule) {
  if (schedule == "interleaved") return Layout::kLoop;
  if (schedule == "zb-v" || schedule == "w" || schedule == "dualpipev") return Layout::kFold;
  return Layout::kLine;
}

}  // namespace tombolo::plan
