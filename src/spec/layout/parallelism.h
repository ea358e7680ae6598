// Parallelism: how a training is spread over devices. The section [parallelism] of a job, which a Plan takes over as it is.
//
// `Degrees` are the numbers that searches try two million times a second; `Parallelism` embeds them and adds the schedule, the
// order of ranks, and where stages and pipelines lie. Everything that depends on the spread is a function of this value:
// placement.h says where each shard sits, rank_numbering.h which ranks form a group, divisions.h what must divide what.
//
// A rank is (position, replica, shard): a position of one pipeline, which of the pipelines, and which of the tensor x context
// shards that work as one there. What is numbered today is (position, replica): rank = position x data + replica, its shards
// being one actor. A shard's own number is rank_of_shard.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/fields.h"
#include "base/result.h"
#include "spec/layout/schedule_kind.h"

namespace tombolo::layout {

// In Megatron's meaning. Tensor, context, data and pipeline parallelism multiply to the number of
// devices; expert parallelism divides the experts among devices that context and data parallelism
// already count, and takes no devices of its own.
struct Degrees {
  int64_t tensor = 1;
  int64_t context = 1;
  int64_t data = 1;
  int64_t pipeline = 1;
  int64_t expert = 1;
  int64_t virtual_stages = 1;  // stages (chunks of layers) of a rank
  int64_t zero = 0;            // ZeRO stage
  bool sequence_parallel = false;

  int64_t devices() const { return tensor * context * data * pipeline; }
  // Chunks of the model in one pipeline: several per rank where there are virtual stages.
  int64_t stages() const { return pipeline * virtual_stages; }
  // Devices that share out what ZeRO shards; experts' are fewer by expert parallelism.
  int64_t replicas() const { return data * context; }
  // How often an iteration of this many microbatches reduces its gradients (docs/laws/zero.md): for each
  // of them with ZeRO 3, and with ZeRO 2 without a pipeline (Megatron-FSDP, DeepSpeed, torchtitan); with
  // ZeRO 2 and several chunks a rank, which run microbatches in rounds of as many as there are positions,
  // for each round. Else once, when all are added up.
  int64_t gradient_sums(int64_t microbatches) const {
    if (zero == 3 || (zero == 2 && pipeline == 1)) return microbatches;
    if (zero == 2 && virtual_stages > 1) return (microbatches + pipeline - 1) / pipeline;
    return 1;
  }
  bool sums_each_microbatch() const { return zero == 3 || (zero == 2 && pipeline == 1); }
  // The share of a device's gradients that is kept whole until it is reduced; the rest is in shards. What
  // is reduced for each microbatch is scattered at once; what is reduced for several is first added up
  // whole: with ZeRO 2 in a pipeline, the one chunk whose round it is.
  double whole_gradients(int64_t microbatches) const {
    if (zero < 2) return 1;
    if (sums_each_microbatch() || microbatches == 1) return 0;
    return 1 / static_cast<double>(virtual_stages);
  }
  bool operator==(const Degrees&) const = default;
};

// The dimensions in which ranks are numbered, innermost first: [parallelism].order, Megatron-Core's
// "tp-cp-ep-dp-pp". Experts are spread over the ranks of context and data parallelism, and have a
// numbering of their own (rank_numbering.h).
enum class Dimension : uint8_t { kTensor, kContext, kExpert, kData, kPipeline };
using DimensionOrder = std::array<Dimension, 5>;
inline constexpr DimensionOrder kMegatronOrder{Dimension::kTensor, Dimension::kContext,
                                               Dimension::kExpert, Dimension::kData,
                                               Dimension::kPipeline};

// Which pipeline of a DP-cell goes first (schedule/player.h says exactly what each means).
enum class Discipline : uint8_t {
  kStrict,    // the lower pipeline's transfers before the higher one's
  kReleased,  // first come, first served; pipelines begin one after the other
  kGreedy,    // first come, first served; all begin at once
};
constexpr auto enum_names(Discipline) {
  return std::to_array<EnumName<Discipline>>({{Discipline::kStrict, "strict"},
                                              {Discipline::kReleased, "released"},
                                              {Discipline::kGreedy, "greedy"}});
}

// A schedule with all that decides which order of work it builds, nothing left out: a view of
// Parallelism, and what searches over schedules vary.
struct ScheduleVariant {
  ScheduleKind schedule = ScheduleKind::k1F1B;
  int64_t chunks = 1;  // stages of a rank
  Sharing sharing = Sharing::kSpatial;
  int64_t cell = 1;  // pipelines that share in time; 1 where sharing is spatial
  Discipline discipline = Discipline::kReleased;

  bool operator==(const ScheduleVariant&) const = default;
};

struct Parallelism : Degrees {
  ScheduleKind schedule = ScheduleKind::k1F1B;
  std::string order = "tp-cp-ep-dp-pp";  // innermost first
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
  // Microbatches of each pipeline, where they differ; their sum x micro_batch is global_batch, and
  // each sample weighs the same in the gradient. Left out: all alike.
  std::vector<int64_t> microbatches_per_replica;
  // Instead: by predicted speed (cost::with_batch_by_speed). A Plan has the resolved numbers.
  bool microbatches_by_speed = false;
  // The run changes them as the speeds of its pipelines change (steer/tune/batch_controller.h); those above
  // are of its first iteration.
  bool adaptive_batch = false;
  // Asks for a folded schedule whose forwards run concurrently with backwards, where that is
  // predicted to gain (schedule_search::plan_strands). Never in a Plan, which has the schedule and
  // its pairs.
  bool strands = false;
  std::string strands_profile;  // file of an overlap profile, by which they are planned
  // Left out: all pipelines are one DP-cell that shares the WAN in time where the schedule does so;
  // elsewhere every pipeline is a cell of its own.
  std::optional<int64_t> cell;  // pipelines per DP-cell; divides data
  std::optional<Sharing> sharing;
  Discipline discipline = Discipline::kReleased;

  int64_t tensor_at(int64_t position) const {
    return tensor_per_stage.empty() ? tensor : tensor_per_stage[static_cast<size_t>(position)];
  }
  // Devices that work as one at a position of a pipeline: its shards. Experts are spread over the
  // devices that context and data parallelism take.
  int64_t shards_at(int64_t position) const { return tensor_at(position) * context; }
  StageMapping mapping() const { return mapping_of(schedule); }
  int32_t position_of(int32_t stage) const {
    return layout::position_of(mapping(), stage, static_cast<int32_t>(pipeline));
  }
  int64_t pipelines_per_cell() const {
    return cell.value_or(sharing_in_use() == Sharing::kTemporal ? data : 1);
  }
  Sharing sharing_in_use() const { return sharing.value_or(traits_of(schedule).sharing); }

  ScheduleVariant variant() const {
    return {schedule, virtual_stages, sharing_in_use(), pipelines_per_cell(), discipline};
  }
  void set_variant(const ScheduleVariant& variant);
  // The variant that this schedule's name alone stands for here: the sharing that is given, or else
  // the schedule's own; and as many stages per position as now, or else two where the mapping needs
  // several.
  ScheduleVariant variant_as(ScheduleKind kind) const;

  bool operator==(const Parallelism&) const = default;
};

// [parallelism].order, read. Unusable: a word that is unknown or there twice, or a dimension that is
// split and left out. One that is not split may be left out and comes last; experts come before data.
Result<DimensionOrder> dimension_order(const Parallelism& parallelism, const std::string& file);

// The number of a shard among all devices, shards innermost: rank x shards + shard. Ranks of
// different positions may have different numbers of shards (tensor_per_stage); then those of the
// positions before count as theirs are.
int64_t rank_of_shard(const Parallelism& parallelism, int64_t position, int64_t replica,
                      int64_t shard);

// Whether there are two chunks more than layers: then the first one has the embedding alone and the
// last one the head, as Llama 3 405B was cut, 126 layers into 16 x 8.
inline bool ends_stand_alone(const Degrees& d, int64_t layers) {
  return d.virtual_stages > 1 && d.stages() == layers + 2;
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
  a.optional(key, list,
             {"where each stage is: one datacenter for all its replicas, or one for each; left "
              "out: even shares in the order of the file",
              "list of names, or of lists of names"});
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

// A degree by its key in [parallelism], and the most it may be.
struct DegreeKey {
  const char* key;
  int64_t Degrees::*degree;
  int64_t min, max;
  const char* about;
};
inline constexpr DegreeKey kDegreeKeys[] = {
    {"tensor", &Degrees::tensor, 1, 1'000'000, "devices that share each layer"},
    {"pipeline", &Degrees::pipeline, 1, 100'000,
     "stages, one after the other; \"auto\", here and above and below: tombolo plan chooses"},
    {"data", &Degrees::data, 1, 1'000'000, "pipelines, each with its share of the batch"},
    {"context", &Degrees::context, 1, 1'000'000, "devices that share each sequence"},
    {"expert", &Degrees::expert, 1, 1'000'000, "devices that share the experts of a layer"},
    {"virtual_stages", &Degrees::virtual_stages, 1, 100'000,
     "pieces of the model that each position of a pipeline holds"},
    {"zero", &Degrees::zero, 0, 3,
     "what replicas share out: 1 optimizer state, 2 gradients too, 3 parameters too"},
};

// Numbers, or "auto".
template <class Archive>
void describe_microbatches(Archive& a, Parallelism& p) {
  constexpr const char* kKey = "microbatches_per_replica";
  Value raw;
  if constexpr (Archive::kReads) {
    a.optional(kKey, raw,
               {"where pipelines differ; \"auto\": by predicted speed; left out: all pipelines "
                "have equally many",
                "list of whole numbers, or \"auto\""});
    const std::string* text = raw.template get<std::string>();
    p.microbatches_by_speed = text && *text == "auto";
    if (!p.microbatches_by_speed) a.optional(kKey, p.microbatches_per_replica);
  } else if (p.microbatches_by_speed) {
    raw = Value("auto");
    a.optional(kKey, raw);
  } else {
    a.optional(kKey, p.microbatches_per_replica);
  }
}

template <class Archive>
void describe(Archive& a, Parallelism& p) {
  // A key may say "auto" in a job for `tombolo plan` (open_job.h); all others need a number.
  const auto asks_for_search = [&](const char* key, const char* instead) {
    if constexpr (Archive::kReads) {
      Value raw;
      a.optional(key, raw);
      const std::string* text = raw.template get<std::string>();
      if (text && *text == "auto") {
        a.refuse(key, "asks for a search",
                 fmt::format("{}, or tombolo plan, which searches", instead));
        return true;
      }
    }
    return false;
  };
  if (!a.has("pipeline")) {
    a.check(false, "pipeline", "is left out, which asks for a search",
            "an explicit number, as in pipeline = 2, or tombolo plan, which searches");
  }
  for (const DegreeKey& each : kDegreeKeys) {
    if (asks_for_search(each.key, "an explicit number")) continue;
    a.optional(each.key, p.*each.degree, {each.about, "whole number or \"auto\""});
    a.check(p.*each.degree >= each.min && p.*each.degree <= each.max, each.key,
            fmt::format("must lie between {} and {}", each.min, each.max));
  }
  a.optional("sequence_parallel", p.sequence_parallel,
             "tensor ranks share the activations between their products, too");
  a.optional("order", p.order, "in which devices are numbered, innermost first");
  if constexpr (Archive::kReads) p.schedule = default_schedule(p.virtual_stages);
  if (!asks_for_search("schedule", "\"1f1b\", \"gpipe\", \"interleaved\" or another by its name"))
    a.optional("schedule", p.schedule,
               {"order of the passes; left out: 1f1b, with virtual stages interleaved; \"auto\": "
                "tombolo plan chooses",
                ""});
  if (Archive::kReads || p.strands) {
    a.optional(
        "strands", p.strands,
        "forwards run together with backwards of other microbatches, where that is predicted to "
        "gain; folds the model");
  }
  if (Archive::kReads || !p.strands_profile.empty()) {
    a.optional("strands_profile", p.strands_profile,
               "overlap profile by which strands are planned (tombolo profile --overlap)");
  }
  a.optional("layers_per_stage", p.layers_per_stage, "left out: as even as possible");
  a.optional("tensor_per_stage", p.tensor_per_stage,
             "tensor degree of each stage, where devices differ; left out: tensor everywhere");
  describe_places(a, "datacenter_per_stage", p.datacenter_per_stage);
  a.optional("datacenter_per_replica", p.datacenter_per_replica,
             "where each pipeline is, with all its stages");
  describe_microbatches(a, p);
  if (Archive::kReads || p.adaptive_batch) {
    a.optional("adaptive_batch", p.adaptive_batch,
               "the run changes how many microbatches each pipeline computes as their speeds "
               "change; global_batch stays");
  }
  a.check(p.microbatches_per_replica.empty() ||
              (std::ssize(p.microbatches_per_replica) == p.data &&
               std::all_of(p.microbatches_per_replica.begin(), p.microbatches_per_replica.end(),
                           [](int64_t m) { return m >= 1 && m <= 100'000'000; })),
          "microbatches_per_replica",
          fmt::format("wanted {} numbers of at least 1, one for each pipeline", p.data));
  a.optional("first_stage_in", p.first_stage_in,
             "datacenters that may hold the first stage, with the samples; left out: any");
  a.optional("last_stage_in", p.last_stage_in,
             "datacenters that may hold the last stage, with the labels; left out: any");
  a.optional("cell", p.cell,
             "pipelines that share the WAN in time (a DP-cell); left out: all where sharing is "
             "temporal, else 1");
  a.optional("sharing", p.sharing,
             "spatial: each pipeline sends over its own pair of nodes; temporal: one transfer at a "
             "time over all pairs; left out: as the schedule does");
  a.optional("discipline", p.discipline, "which pipeline of a DP-cell goes first");
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
  a.check(!p.order.empty(), "order", "is empty", "\"tp-cp-ep-dp-pp\", innermost first");
}

}  // namespace tombolo::layout
