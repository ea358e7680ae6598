#include "spec/plan/job.h"

#include <algorithm>
#include <filesystem>
#include <numeric>
#include <optional>
#include <set>
#include <tuple>

#include "base/field_catalog.h"
#include "base/fields.h"
#include "base/file.h"
#include "base/toml.h"
#include "spec/plan/data_shares.h"
#include "spec/plan/job_value.h"
#include "spec/plan/pipeline_ends.h"

namespace tombolo::plan {

// One text for all stages, or a list with a text for each.
template <class Archive>
void per_stage(Archive& a, const char* key, std::vector<Seconds>& out, const char* about) {
  Value raw;
  a.optional(key, raw, {about, "time, or list with one for each stage"});
  if (raw.template get<std::string>()) {
    Seconds one;
    a.required(key, one);
    out = {one};
  } else {
    a.optional(key, out);
  }
}

namespace {

// One for all stages, or one each; whether there are enough is checked with the job's stages.
Seconds of_stage(const std::vector<Seconds>& list, size_t stage) {
  return list.empty() ? 0_s : list[std::min(stage, list.size() - 1)];
}

bool weights_within(const StageTimes& times) {
  const size_t stages = std::max(times.backward.size(), times.backward_weight.size());
  for (size_t s = 0; s < stages; ++s) {
    if (of_stage(times.backward_weight, s) > of_stage(times.backward, s)) return false;
  }
  return true;
}

}  // namespace

template <class Archive>
void describe(Archive& a, StageTimes& times) {
  per_stage(a, "forward", times.forward, "of one microbatch");
  per_stage(a, "backward", times.backward, "of one microbatch, without recomputation");
  per_stage(a, "backward_weight", times.backward_weight,
            "of a backward, the gradients of weights, which zero-bubble schedules let wait; left "
            "out: half");
  per_stage(a, "recompute", times.recompute,
            "of one microbatch; the last stage never recomputes; left out: nothing");
  per_stage(a, "pair", times.pair,
            "a forward and the backward of the rank's other stage together, where they are "
            "co-executed; left out: they are not");
  per_stage(
      a, "pair_forward", times.pair_forward,
      "from the start of a pair until its forward's result is there; left out: the whole pair");
  a.check(times.pair_forward.empty() || !times.pair.empty(), "pair_forward",
          "is when the forward of a pair ends, and pair is left out", "pair = \"3 ms\" with it");
  a.optional("reduce", times.reduce,
             "gradient all-reduce among the replicas, once per iteration; left out: none");
  a.optional("transfer", times.transfer,
             "of one microbatch's activations over a WAN link; inside a datacenter nothing");
  a.optional("latency", times.latency,
             "of a transfer, after its last byte has left; left out: the link's");
  a.optional("in_flight", times.in_flight,
             "microbatches that a device has memory for; left out: any number");
  a.check(!times.latency || times.transfer, "latency", "is that of a transfer, which is left out",
          "transfer = \"2 ms\" with it");
  a.check(!times.in_flight || *times.in_flight >= 1, "in_flight", "must be at least 1");
  a.check(!times.forward.empty(), "forward", "is needed");
  a.check(!times.backward.empty(), "backward", "is needed");
  a.check(weights_within(times), "backward_weight", "is part of a backward and longer than it",
          "at most backward, or leave it out: half");
}

namespace {

// The file's sections; model, cluster and prefill have readers of their own.
struct JobFile {
  Value model, cluster, prefill;
  Job job;
};

template <class Archive>
void describe(Archive& a, JobFile& file) {
  a.optional("name", file.job.name, "what answers and reports call the job");
  a.optional(
      "model", file.model,
      {"what is trained; may be left out where [stage_times] say how long stages take", "table"});
  a.required("cluster", file.cluster, {"where it is trained", "table"});
  a.required("training", file.job.training, "batch, precision and software");
  a.optional("optimizer", file.job.optimizer, "how weights are updated");
  if (!a.has("parallelism")) {
    a.check(false, "parallelism", "is left out, which asks for a search",
            "[parallelism] with pipeline = 2 and schedule = \"1f1b\", or tombolo plan, which "
            "searches");
  }
  a.optional("parallelism", file.job.parallelism,
             "how the training is spread over the devices; left out: tombolo plan searches");
  a.optional("exchange", file.job.exchange,
             "how replicas exchange gradients, or train together, over WAN links");
  a.optional("stage_times", file.job.stage_times,
             "durations that were measured or imagined, instead of a law's");
  a.optional("data", file.job.data, "what is trained on");
  a.optional("run", file.job.run, "how long, and from where");
  a.optional("checkpoint", file.job.checkpoint, "left out: no checkpoints are written");
  a.optional("prefill", file.prefill,
             {"model whose prompts are processed in the bubbles of the training", "table"});
  a.optional("selection", file.job.selection,
             "what tombolo select is told about the choice of datacenters");
}

Result<cluster::Cluster> read_job_cluster(const Value& section, const std::string& file) {
  const Value* path = section.find("file");
  if (!path) return cluster::read_cluster(section, file, "cluster");
  const std::string* name = path->get<std::string>();
  if (!name) return unusable(fmt::format("{}:{}: cluster.file: wanted a text", file, path->line));
  if (section.get<Value::Table>()->size() > 1) {
    return unusable(fmt::format("{}:{}: cluster.file = \"{}\": the cluster cannot stand in a file "
                                "and here too",
                                file, path->line, *name),
                    "one of the two");
  }
  const std::string where = sibling_path(file, *name);
  const std::string doing = fmt::format("reading cluster.file = \"{}\" of {}", *name, file);
  const std::string text = TRY(during(read_file(where), doing));
  const Value value = TRY(during(parse_toml(text, where), doing));
  return during(cluster::read_cluster(value, where, ""), doing);
}

// Where the model is folded a rank holds a stage and the one as far from the end; a pair is a
// forward of one and a backward of the other.
Status check_pair_times(const Job& job) {
  const StageTimes& times = *job.stage_times;
  if (times.pair.empty()) return {};
  if (job.parallelism.mapping() != layout::StageMapping::kFold) {
    return unusable(fmt::format("{}: stage_times.pair: schedule = \"{}\" has no pairs of a forward "
                                "and a backward",
                                job.file, to_name(job.parallelism.schedule)),
                    "schedule = \"dualpipev\" or \"w\", which fold the model");
  }
  if (job.parallelism.virtual_stages != 2) {
    return unusable(fmt::format("{}: stage_times.pair: pairs are of the two stages of a rank, and "
                                "virtual_stages = {}",
                                job.file, job.parallelism.virtual_stages),
                    "virtual_stages = 2");
  }
  const auto stages = static_cast<size_t>(job.parallelism.stages());
  constexpr double kRounded = 1 - 1e-6;  // texts round
  for (size_t s = 0; s < stages; ++s) {
    const Seconds pair = of_stage(times.pair, s), forward = of_stage(times.forward, s);
    const Seconds backward = of_stage(times.backward, stages - 1 - s);
    const Seconds ends = times.pair_forward.empty() ? pair : of_stage(times.pair_forward, s);
    if (pair >= std::max(forward, backward) * kRounded && ends >= forward * kRounded &&
        pair >= ends * kRounded && pair < 9e9_s) {
      continue;
    }
    return unusable(
        fmt::format("{}: stage_times.pair = \"{}\" of stage {}, whose forward ends after {}: alone "
                    "the forward takes {} and the backward with it {}",
                    job.file, format(pair), s, format(ends), format(forward), format(backward)),
        "a pair at least as long as each of the two, pair_forward between forward and pair");
  }
  return {};
}

Status check_numbers(const Job& job) {
  const layout::Parallelism& p = job.parallelism;
  if (!job.model && !job.stage_times) {
    return unusable(fmt::format("{}: model is missing", job.file),
                    "[model] with preset = \"gpt3-175b\", or [stage_times]");
  }
  TRY(check_divisions(job));
  if (job.stage_times) {
    for (const auto* times :
         {&job.stage_times->forward, &job.stage_times->backward, &job.stage_times->backward_weight,
          &job.stage_times->recompute, &job.stage_times->pair, &job.stage_times->pair_forward}) {
      if (times->size() > 1 && times->size() != static_cast<size_t>(p.stages())) {
        return unusable(fmt::format("{}: stage_times: a list has {} entries for {} stages",
                                    job.file, times->size(), p.stages()));
      }
    }
    TRY(check_pair_times(job));
  }
  return {};
}

void take_stage_times(const StageTimes& times, Plan& plan) {
  for (size_t s = 0; s < plan.stages.size(); ++s) {
    const bool last = s + 1 == plan.stages.size();
    StageCost& cost = plan.stages[s].cost;
    cost = {.forward = of_stage(times.forward, s),
            .backward = of_stage(times.backward, s),
            .recompute = last ? 0_s : of_stage(times.recompute, s),
            .reduce = times.reduce.value_or(0_s)};
    if (!times.backward_weight.empty()) cost.backward_weight = of_stage(times.backward_weight, s);
  }
  const auto stages = static_cast<int32_t>(plan.stages.size());
  for (int32_t s = 0; s < stages && !times.pair.empty(); ++s) {
    const auto at = static_cast<size_t>(s);
    const Seconds pair = of_stage(times.pair, at);
    plan.pairs.push_back(
        {.forward = s,
         .backward = stages - 1 - s,
         .forward_end = times.pair_forward.empty() ? pair : of_stage(times.pair_forward, at),
         .backward_end = pair});
  }
  plan.wan_transfer = times.transfer;
  if (times.transfer) plan.wan_latency = times.latency;
  plan.in_flight = times.in_flight;
  plan.cost_source = CostSource::kStageTimes;
}

}  // namespace

Status check_pipelines_are_free(const Job& job) {
  const layout::Parallelism& p = job.parallelism;
  const bool lists = std::any_of(p.datacenter_per_stage.begin(), p.datacenter_per_stage.end(),
                                 [](const auto& names) { return names.size() > 1; });
  if (!p.microbatches_per_replica.empty()) {
    return unusable(
        fmt::format("{}: parallelism.microbatches_per_replica is given, and a search takes "
                    "pipelines that do all the same",
                    job.file),
        "tombolo simulate, which takes them as they are, or without this key");
  }
  if (p.adaptive_batch) {
    return unusable(
        fmt::format("{}: parallelism.adaptive_batch = true, and a search compares Plans "
                    "whose batch stays",
                    job.file),
        "tombolo simulate, or without this key, which the Plan that is found may get");
  }
  if (p.datacenter_per_replica.empty() && !lists) return {};
  return unusable(
      fmt::format("{}: parallelism.{} is given, and a search keeps the replicas of a stage in one "
                  "datacenter",
                  job.file, lists ? "datacenter_per_stage with a list" : "datacenter_per_replica"),
      "tombolo simulate, which takes pipelines where they are, or without this key");
}

namespace {

// [parallelism].layers_per_stage, one number for each stage; empty: as even as possible. A number
// for each position of the pipeline is divided among the stages there.
std::vector<int64_t> given_layers(const model::Model& m, const layout::Parallelism& p) {
  const std::vector<int64_t>& given = p.layers_per_stage;
  if (std::ssize(given) == p.stages()) return given;
  bool even = true;
  for (int64_t i = 0; i < std::ssize(given); ++i) {
    even = even && given[static_cast<size_t>(i)] == model::stage_slice(m, p.pipeline, i).layers;
  }
  if (even) return {};
  std::vector<int64_t> layers;
  for (int64_t stage = 0; stage < p.stages(); ++stage) {
    const int32_t position = p.position_of(static_cast<int32_t>(stage));
    const int64_t all = given[static_cast<size_t>(position)], chunk = stage / p.pipeline;
    layers.push_back(all / p.virtual_stages + (chunk < all % p.virtual_stages ? 1 : 0));
  }
  return layers;
}

}  // namespace

std::vector<model::Slice> split_layers(const model::Model& m, const layout::Parallelism& p) {
  CHECK(m.layers >= p.stages() || layout::ends_stand_alone(p, m.layers) ||
            !p.layers_per_stage.empty(),
        "{} layers in {} stages", m.layers, p.stages());
  const std::vector<int64_t> given = given_layers(m, p);
  std::vector<model::Slice> slices;
  const int64_t stages = p.stages();
  int64_t next = 0;
  for (int64_t s = 0; s < stages; ++s) {
    if (given.empty()) {
      slices.push_back(model::stage_slice(m, stages, s));
      continue;
    }
    const int64_t layers = given[static_cast<size_t>(s)];
    slices.push_back({next, layers, s == 0, s + 1 == stages});
    next += layers;
  }
  return slices;
}

namespace {

Result<Job> to_job(const JobValue& read, const std::string& file) {
  Job job = TRY(job_from_value(read.value, file));
  job.notes.insert(job.notes.end(), read.notes.begin(), read.notes.end());
  job.constants = read.constants;
  return job;
}

}  // namespace

Result<Job> parse_job(std::string_view text, const std::string& file) {
  return to_job(TRY(parse_job_value(text, file)), file);
}

std::vector<std::string> notes_on_precision(const Decisions& asked) {
  const Precision precision = asked.training.precision;
  std::vector<std::string> notes;
  std::set<std::string> seen;
  for (const cluster::Datacenter& datacenter : asked.cluster.datacenters) {
    const cluster::Device& device = datacenter.device;
    if (!seen.insert(device.name).second) continue;
    if (precision == Precision::kFp8 && !device.peak_fp8) {
      notes.push_back(
          fmt::format("precision = \"fp8\": {} has no peak_fp8; counted at 16 bits", device.name));
    } else if (precision == Precision::kBf16 && !cluster::multiplies_bf16(device)) {
      notes.push_back(fmt::format(
          "precision = \"bf16\": the matrix units of {} take fp16 alone; counted as fast as fp16",
          device.name));
    }
  }
  return notes;
}

std::vector<std::string> notes_on_wan(const cluster::Cluster& cluster) {
  std::vector<std::string> notes;
  for (const cluster::WanLink& link : cluster.wan) {
    const bool lossy = link.loss > 0, jitters = link.jitter.value > 0;
    if (!lossy && !jitters) continue;
    notes.push_back(fmt::format("not part of the law for WAN flows yet: {} of {} - {}",
                                lossy && jitters ? "loss, jitter"
                                : lossy          ? "loss"
                                                 : "jitter",
                                link.between[0], link.between[1]));
  }
  return notes;
}

// Where gradients asked for in shards are whole all the same, and where there is nothing to share out.
std::optional<std::string> note_on_zero(const Decisions& asked) {
  const layout::Parallelism& p = asked.parallelism;
  const std::set<std::string> homes(p.datacenter_per_replica.begin(),
                                    p.datacenter_per_replica.end());
  if (p.zero == 1 && homes.size() > 1 && std::ssize(homes) == p.data) {
    return "zero = 1 has no effect: each datacenter shards among its own replicas, and has one";
  }
  if (p.zero != 2 || p.pipeline == 1 || asked.training.micro_batch < 1 || p.data < 1) return {};
  if (p.data * p.context == 1 || p.whole_gradients(asked.microbatches()) < 1) return {};
  return "zero = 2 with a pipeline: each device adds up whole gradients of all microbatches, and "
         "they are summed once, as with zero = 1";
}

// Laws count what the stack keeps for AdamW, unless the job states another number of bytes.
static std::optional<std::string> note_on_optimizer(const Decisions& asked) {
  const Optimizer& optimizer = asked.optimizer;
  const double counted = Training{}.optimizer_bytes_per_parameter;
  if (optimizer.name_in_use() == OptimizerName::kAdamW ||
      asked.training.optimizer_bytes_per_parameter != counted)
    return {};
  return fmt::format(
      "optimizer.name = \"{}\": its memory is counted as AdamW's, unless "
      "training.optimizer_bytes_per_parameter is another number than {:g}",
      to_name(optimizer.name_in_use()), counted);
}

Result<Job> job_from_value(const Value& value, const std::string& file) {
  if (value.find("datacenter") && !value.find("cluster")) {
    const std::string at = value.line ? fmt::format("{}:{}", file, value.line) : file;
    return unusable(fmt::format("{}: a file of datacenters, and no job", at),
                    fmt::format("a job with [model], [training] and [cluster] file = \"{}\"",
                                std::filesystem::path(file).filename().string()));
  }
  JobFile sections = TRY(read_fields<JobFile>(value, file));
  Job job = std::move(sections.job);
  job.file = file;
  if (job.name.empty()) job.name = std::filesystem::path(file).stem().string();
  if (!sections.model.is_null()) {
    if (!sections.model.get<Value::Table>()) {
      return unusable(fmt::format("{}: model: wanted a table", file), "[model]");
    }
    model::ModelSection section = TRY(model::read_model(sections.model, file, "model"));
    job.model = std::move(section.model);
    job.notes = std::move(section.notes);
  }
  if (!sections.cluster.get<Value::Table>()) {
    return unusable(fmt::format("{}: cluster: wanted a table", file), "[cluster]");
  }
  job.cluster = TRY(read_job_cluster(sections.cluster, file));
  TRY(check_names_of_places(job.parallelism, job.cluster, file));
  if (!sections.prefill.is_null()) job.prefill = TRY(read_prefill(sections.prefill, file));
  for (std::string& note : notes_on_precision(job)) job.notes.push_back(std::move(note));
  for (std::string& note : notes_on_wan(job.cluster)) job.notes.push_back(std::move(note));
  if (!job.parallelism.strands_profile.empty() && !job.parallelism.strands)
    job.notes.push_back("[parallelism] strands_profile has no effect without strands = true");
  if (auto note = note_on_zero(job)) job.notes.push_back(*std::move(note));
  if (auto note = note_on_optimizer(job); note && job.model) job.notes.push_back(*std::move(note));
  if (job.stage_times && job.stage_times->recompute.empty() &&
      job.training.recompute != model::Recompute::kNone) {
    job.notes.push_back(fmt::format(
        "training.recompute = \"{}\" takes no time: [stage_times] has no recompute, unless its "
        "backward includes it",
        to_name(job.training.recompute)));
  }
  if (job.data) {
    TRY(check_share_names(*job.data, job.cluster, file));
    change_paths(*job.data, [&](const std::string& path) { return sibling_path(file, path); });
  }
  if (std::string& profile = job.parallelism.strands_profile; !profile.empty())
    profile = sibling_path(file, profile);
  if (job.exchange && !job.exchange->convergence_profile.empty())
    job.exchange->convergence_profile = sibling_path(file, job.exchange->convergence_profile);
  if (job.run.init) job.run.init = sibling_path(file, *job.run.init);
  if (job.checkpoint) job.checkpoint->directory = sibling_path(file, job.checkpoint->directory);
  return job;
}

Result<Job> read_job(const std::string& path) { return to_job(TRY(read_job_value(path)), path); }

Status check_divisions(const Job& job) {
  return layout::check_divisions(job.parallelism,
                                 {job.training.global_batch, job.training.micro_batch},
                                 job.model ? &*job.model : nullptr,
                                 find_stack(job.training.stack)->replicates_kv_heads, job.file);
}

Result<Plan> lay_out(const Job& job) {
  TRY(check_numbers(job));
  Plan plan;
  static_cast<Decisions&>(plan) = job;
  plan.parallelism.strands_profile.clear();
  plan.parallelism.strands = false;  // chosen by others (schedule_search::choose_strands)
  // Without one a stage counts as a layer.
  model::Model whole;
  whole.layers = plan.parallelism.stages();
  if (job.model) whole = plan.model = *job.model;
  for (const model::Slice& slice : split_layers(whole, plan.parallelism)) {
    Stage stage{.slice = slice};
    const int64_t tensor =
        plan.parallelism.tensor_at(plan.position_of(static_cast<int32_t>(plan.stages.size())));
    if (job.model) {
      stage.gradients = Bytes{static_cast<double>(model::parameters(plan.model, slice)) /
                              static_cast<double>(tensor) * gradient_bytes(plan)};
    }
    plan.stages.push_back(stage);
  }
  plan.ranks = TRY(layout::place(job.parallelism, job.cluster, job.file));
  plan.boundary = job.model ? model::boundary_bytes(plan.model, plan.training.micro_batch,
                                                    element_bytes(plan.training.precision))
                            : 0_B;
  TRY(during(validate(plan), "laying out " + job.file));
  if (job.stage_times) take_stage_times(*job.stage_times, plan);
  return plan;
}

std::vector<KeyEntry> cluster_keys() { return keys_of<cluster::Cluster>(); }

std::vector<KeyEntry> job_keys() {
  std::vector<KeyEntry> keys = keys_of<JobFile>();
  graft(keys, "model", model::model_keys());
  std::vector<KeyEntry> of_cluster = cluster_keys();
  of_cluster.insert(of_cluster.begin(),
                    {.path = "file",
                     .kind = "text",
                     .text = "path of a cluster file, which has all keys below, instead of them"});
  graft(keys, "cluster", std::move(of_cluster));
  graft(keys, "prefill", prefill_keys());
  return keys;
}

}  // namespace tombolo::plan
