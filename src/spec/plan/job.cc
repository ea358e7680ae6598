#include "spec/plan/job.h"

#include <algorithm>
#include <filesystem>
#include <numeric>
#include <optional>
#include <tuple>

#include "base/fields.h"
#include "base/file.h"
#include "base/toml.h"
#include "spec/plan/data_shares.h"
#include "spec/plan/job_value.h"

namespace tombolo::plan {

// One text for all stages, or a list with a text for each.
template <class Archive>
void per_stage(Archive& a, const char* key, std::vector<Seconds>& out) {
  Value raw;
  a.optional(key, raw);
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
  per_stage(a, "forward", times.forward);
  per_stage(a, "backward", times.backward);
  per_stage(a, "backward_weight", times.backward_weight);
  per_stage(a, "recompute", times.recompute);
  per_stage(a, "pair", times.pair);
  per_stage(a, "pair_forward", times.pair_forward);
  a.check(times.pair_forward.empty() || !times.pair.empty(), "pair_forward",
          "is when the forward of a pair ends, and pair is left out", "pair = \"3 ms\" beside it");
  a.optional("reduce", times.reduce);
  a.optional("transfer", times.transfer);
  a.optional("latency", times.latency);
  a.optional("in_flight", times.in_flight);
  a.check(!times.latency || times.transfer, "latency", "is that of a transfer, which is left out",
          "transfer = \"2 ms\" beside it");
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
  a.optional("name", file.job.name);
  a.optional("model", file.model);
  a.required("cluster", file.cluster);
  a.required("training", file.job.training);
  a.optional("optimizer", file.job.optimizer);
  if (!a.has("parallelism")) {
    a.check(false, "parallelism", "is left out, which asks for a search",
            "[parallelism] with pipeline = 2 and schedule = \"1f1b\", or tombolo plan, which "
            "searches");
  }
  a.optional("parallelism", file.job.parallelism);
  a.optional("exchange", file.job.exchange);
  a.optional("stage_times", file.job.stage_times);
  a.optional("data", file.job.data);
  a.optional("run", file.job.run);
  a.optional("checkpoint", file.job.checkpoint);
  a.optional("prefill", file.prefill);
  a.optional("selection", file.job.selection);
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

// Chunks of the model in one pipeline: several per rank where there are virtual stages.
int64_t stages_of(const Parallelism& p) { return p.pipeline * p.virtual_stages; }

// Where the model is folded a rank holds a stage and the one as far from the end; a pair is a
// forward of one and a backward of the other.
Status check_pair_times(const Job& job) {
  const StageTimes& times = *job.stage_times;
  if (times.pair.empty()) return {};
  if (layout_of(job.parallelism.schedule) != Layout::kFold) {
    return unusable(fmt::format("{}: stage_times.pair: schedule = \"{}\" has no pairs of a forward "
                                "and a backward",
                                job.file, job.parallelism.schedule),
                    "schedule = \"dualpipev\" or \"w\", which fold the model");
  }
  if (job.parallelism.virtual_stages != 2) {
    return unusable(fmt::format("{}: stage_times.pair: pairs are of the two stages of a rank, and "
                                "virtual_stages = {}",
                                job.file, job.parallelism.virtual_stages),
                    "virtual_stages = 2");
  }
  const auto stages = static_cast<size_t>(stages_of(job.parallelism));
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
                    "the forward takes {} and the backward beside it {}",
                    job.file, format(pair), s, format(ends), format(forward), format(backward)),
        "a pair at least as long as each of the two, pair_forward between forward and pair");
  }
  return {};
}

Status check_virtual_stages(const Job& job) {
  const Parallelism& p = job.parallelism;
  if (p.virtual_stages == 1) return {};
  constexpr int64_t kStagesMax = 100'000;
  if (stages_of(p) > kStagesMax) {
    return unusable(fmt::format("{}: parallelism.virtual_stages = {}: {} stages in all are more "
                                "than {}",
                                job.file, p.virtual_stages, stages_of(p), kStagesMax),
                    "fewer virtual_stages");
  }
  if (layout_of(p.schedule) != Layout::kLine) return {};
  return unusable(fmt::format("{}: parallelism.virtual_stages = {}: schedule = \"{}\" has one "
                              "stage per rank",
                              job.file, p.virtual_stages, p.schedule),
                  "virtual_stages = 1, or schedule = \"interleaved\"");
}

Status check_numbers(const Job& job) {
  const Parallelism& p = job.parallelism;
  const Training& t = job.training;
  TRY(check_virtual_stages(job));
  if (p.microbatches_per_replica.empty() && t.global_batch % (t.micro_batch * p.data) != 0) {
    return unusable(fmt::format("{}: training.global_batch = {}: not a multiple of micro_batch x "
                                "data = {}",
                                job.file, t.global_batch, t.micro_batch * p.data),
                    fmt::format("{}", (t.global_batch / (t.micro_batch * p.data) + 1) *
                                          t.micro_batch * p.data));
  }
  if (!job.model && !job.stage_times) {
    return unusable(fmt::format("{}: model is missing", job.file),
                    "[model] with preset = \"gpt3-175b\", or [stage_times]");
  }
  if (job.model && job.model->layers < stages_of(p) && !ends_stand_alone(p, job.model->layers)) {
    const std::string each =
        p.virtual_stages == 1 ? "" : fmt::format(" x virtual_stages = {}", p.virtual_stages);
    return unusable(fmt::format("{}: parallelism.pipeline = {}{}: the model has only {} layers",
                                job.file, p.pipeline, each, job.model->layers),
                    fmt::format("at most {} stages", job.model->layers));
  }
  if (!p.layers_per_stage.empty()) {
    int64_t sum = 0;
    for (const int64_t layers : p.layers_per_stage) {
      if (layers < 0 || layers > 100'000) sum = -1'000'000;
      sum += layers;
    }
    const auto numbers = std::ssize(p.layers_per_stage);
    if ((numbers != stages_of(p) && numbers != p.pipeline) ||
        (job.model && sum != job.model->layers) || sum < 0) {
      return unusable(
          fmt::format("{}: parallelism.layers_per_stage: wanted {} numbers that sum to "
                      "the model's layers",
                      job.file,
                      p.virtual_stages == 1 ? fmt::format("{}", p.pipeline)
                                            : fmt::format("{} or {}", p.pipeline, stages_of(p))));
    }
  }
  if (job.stage_times) {
    for (const auto* times :
         {&job.stage_times->forward, &job.stage_times->backward, &job.stage_times->backward_weight,
          &job.stage_times->recompute, &job.stage_times->pair, &job.stage_times->pair_forward}) {
      if (times->size() > 1 && times->size() != static_cast<size_t>(stages_of(p))) {
        return unusable(fmt::format("{}: stage_times: a list has {} entries for {} stages",
                                    job.file, times->size(), stages_of(p)));
      }
    }
    TRY(check_pair_times(job));
  }
  return {};
}

// Beside [stage_times] a model may be left out; this one has a layer per stage and no bytes to
// speak of.
model::Model imagined_model(int64_t layers) {
  model::Model m;
  m.name = "stage-times";
  m.layers = layers;
  m.hidden = m.heads = m.kv_heads = m.ffn = m.vocabulary = m.sequence = 1;
  return m;
}

// Devices of a datacenter, handed out one after the other. Over several datacenters the shards of a
// rank stay on one node where a node has room for them, as the search counts them (decide/geo).
class Devices {
 public:
  Devices(const cluster::Datacenter& datacenter, bool aligned)
      : datacenter_(&datacenter), aligned_(aligned) {}

  // The first of so many neighbours, or nothing.
  std::optional<int64_t> take(int64_t shards) {
    const int64_t on_node = datacenter_->devices_per_node;
    const int64_t left = on_node - next_ % on_node;
    if (aligned_ && left < shards && shards <= on_node) next_ += left;
    if (next_ + shards > datacenter_->devices()) return {};
    next_ += shards;
    return next_ - shards;
  }
  // How many ranks of so many shards there is room for from the beginning.
  int64_t room(int64_t shards) const {
    const int64_t on_node = datacenter_->devices_per_node;
    return aligned_ && shards <= on_node ? datacenter_->nodes * (on_node / shards)
                                         : datacenter_->devices() / shards;
  }

 private:
  const cluster::Datacenter* datacenter_;
  bool aligned_;
  int64_t next_ = 0;
};

std::vector<Devices> devices_of(const cluster::Cluster& cluster) {
  std::vector<Devices> all;
  for (const cluster::Datacenter& each : cluster.datacenters) {
    all.emplace_back(each, cluster.datacenters.size() > 1);
  }
  return all;
}

// "8 replicas", "8 replicas x 4 shards"
std::string replicas_text(const Job& job, int64_t shards) {
  return fmt::format("{} replicas{}", job.parallelism.data,
                     shards == 1 ? "" : fmt::format(" x {} shards", shards));
}

// Stages per datacenter: even shares in the order of the file, cut to what a datacenter has room
// for with all replicas; what is left over goes to those with room to spare, first ones first.
Result<std::vector<int64_t>> share_stages(const Job& job) {
  const int64_t stages = job.parallelism.pipeline;
  const int64_t replicas = job.parallelism.data;
  const auto count = static_cast<int64_t>(job.cluster.datacenters.size());
  int64_t shards = 1;  // of the widest stage: with unlike ones people say where each lies
  for (int64_t s = 0; s < stages; ++s) shards = std::max(shards, job.parallelism.shards_at(s));
  std::vector<int64_t> room;
  for (const Devices& devices : devices_of(job.cluster)) {
    room.push_back(devices.room(shards) / replicas);
  }
  const int64_t all = std::accumulate(room.begin(), room.end(), int64_t{0});
  const int64_t wanted = stages * replicas * shards;
  if (stages > all && (replicas == 1 || count == 1)) {
    return infeasible(fmt::format("{} stages{} need {} devices, the cluster has {}", stages,
                                  replicas * shards == 1 ? "" : " x " + replicas_text(job, shards),
                                  wanted, job.cluster.devices()),
                      replicas * shards == 1
                          ? fmt::format("pipeline = {}, or more nodes", job.cluster.devices())
                          : fmt::format("{} nodes, or less parallelism",
                                        (wanted + job.cluster.datacenters[0].devices_per_node - 1) /
                                            job.cluster.datacenters[0].devices_per_node));
  }
  if (stages > all) {
    std::string rooms;
    for (int64_t d = 0; d < count; ++d) {
      const cluster::Datacenter& datacenter = job.cluster.datacenters[d];
      rooms += fmt::format("{}{} with {} devices has room for {}", d == 0 ? "" : ", ",
                           datacenter.name, datacenter.devices(), room[d]);
    }
    return infeasible(
        fmt::format("{} stages x {} do not fit: the replicas of a stage share a datacenter; "
                    "{}: {} stages in all",
                    stages, replicas_text(job, shards), rooms, all),
        fmt::format("pipeline = {}, fewer replicas, or datacenters with a multiple of {} devices",
                    std::max<int64_t>(all, 1), replicas * shards));
  }
  std::vector<int64_t> shares(count, 0);
  for (int64_t s = 0; s < stages; ++s) ++shares[s * count / stages];
  int64_t left = 0;
  for (int64_t d = 0; d < count; ++d) {
    if (shares[d] > room[d]) {
      left += shares[d] - room[d];
      shares[d] = room[d];
    }
  }
  for (int64_t d = 0; d < count && left > 0; ++d) {
    const int64_t more = std::min(left, room[d] - shares[d]);
    shares[d] += more;
    left -= more;
  }
  return shares;
}

// Of each position of the pipeline, the indices of its datacenters in the cluster: one for all
// replicas, or one for each.
using Where = std::vector<std::vector<size_t>>;

Result<size_t> find_datacenter(const Job& job, const std::string& key, const std::string& name) {
  const auto& all = job.cluster.datacenters;
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const auto& d) { return d.name == name; });
  if (found != all.end()) return static_cast<size_t>(found - all.begin());
  return unusable(
      fmt::format("{}: parallelism.{}: there is no datacenter \"{}\"", job.file, key, name));
}

Result<std::vector<size_t>> find_datacenters(const Job& job, const std::string& key,
                                             const std::vector<std::string>& names) {
  std::vector<size_t> where;
  for (size_t i = 0; i < names.size(); ++i) {
    where.push_back(TRY(find_datacenter(job, fmt::format("{}[{}]", key, i), names[i])));
  }
  return where;
}

Result<Where> where_stages_lie(const Job& job) {
  const Parallelism& p = job.parallelism;
  const auto pipeline = static_cast<size_t>(p.pipeline);
  Where where;
  if (!p.datacenter_per_replica.empty()) {
    where.assign(pipeline,
                 TRY(find_datacenters(job, "datacenter_per_replica", p.datacenter_per_replica)));
    return where;
  }
  if (p.datacenter_per_stage.empty()) {
    const std::vector<int64_t> shares = TRY(share_stages(job));
    for (size_t d = 0; d < shares.size(); ++d) {
      where.insert(where.end(), static_cast<size_t>(shares[d]), {d});
    }
    return where;
  }
  if (p.datacenter_per_stage.size() != pipeline) {
    return unusable(fmt::format("{}: parallelism.datacenter_per_stage: {} names for {} stages",
                                job.file, p.datacenter_per_stage.size(), pipeline),
                    "one name per stage, or a list of names with one per pipeline, or none");
  }
  for (size_t s = 0; s < pipeline; ++s) {
    const std::vector<std::string>& names = p.datacenter_per_stage[s];
    const std::string key = fmt::format("datacenter_per_stage[{}]", s);
    if (names.size() == 1) {
      where.push_back({TRY(find_datacenter(job, key, names[0]))});
    } else {
      where.push_back(TRY(find_datacenters(job, key, names)));
    }
  }
  return where;
}

// How far apart ranks lie that differ by one in a dimension, in devices: [parallelism].order. Of
// several datacenters each has whole stages, so that pipelines are outermost there.
struct Strides {
  int64_t tensor = 1, context = 1, data = 1, pipeline = 1;
  bool shards_are_neighbours = true;
};

Result<Strides> strides_of(const Job& job) {
  const Parallelism& p = job.parallelism;
  Strides strides;
  int64_t stride = 1;
  std::string dimensions;  // those that are split
  std::vector<std::string> words;
  for (size_t begin = 0; begin <= p.order.size();) {
    const size_t end = std::min(p.order.find('-', begin), p.order.size());
    words.push_back(p.order.substr(begin, end - begin));
    begin = end + 1;
  }
  const std::tuple<const char*, int64_t, int64_t*> all[] = {{"tp", p.tensor, &strides.tensor},
                                                            {"cp", p.context, &strides.context},
                                                            {"dp", p.data, &strides.data},
                                                            {"pp", p.pipeline, &strides.pipeline}};
  for (const auto& [name, degree, out] : all) {
    const auto times = std::count(words.begin(), words.end(), name);
    if (times > 1 || (times == 0 && degree > 1)) {
      return unusable(fmt::format("{}: parallelism.order = \"{}\": \"{}\" is {}", job.file, p.order,
                                  name, times == 0 ? "missing" : "there twice"),
                      "\"tp-cp-ep-dp-pp\", innermost first");
    }
  }
  for (const std::string& word : words) {
    const auto known = std::find_if(std::begin(all), std::end(all),
                                    [&](const auto& each) { return std::get<0>(each) == word; });
    if (known == std::end(all)) {
      if (word == "ep") continue;  // experts follow the ranks of context and data parallelism
      return unusable(
          fmt::format("{}: parallelism.order = \"{}\": \"{}\" is unknown", job.file, p.order, word),
          "\"tp-cp-ep-dp-pp\", innermost first");
    }
    *std::get<2>(*known) = stride;
    stride *= std::get<1>(*known);
  }
  strides.shards_are_neighbours =
      (p.tensor == 1 || strides.tensor == 1) && (p.context == 1 || strides.context == p.tensor);
  const bool stages_are_outermost = p.pipeline == 1 || strides.pipeline * p.pipeline == stride;
  const bool unlike = !p.tensor_per_stage.empty();
  if ((job.cluster.datacenters.size() > 1 || unlike) &&
      !(strides.shards_are_neighbours && stages_are_outermost)) {
    return unusable(
        fmt::format("{}: parallelism.order = \"{}\": over several datacenters, and with "
                    "tensor_per_stage, stages are outermost and shards innermost",
                    job.file, p.order),
        "\"tp-cp-ep-dp-pp\"");
  }
  return strides;
}

// In one datacenter, where the order of parallelism says.
Result<std::vector<Placement>> place_by_order(const Job& job, const Strides& strides) {
  const Parallelism& p = job.parallelism;
  const cluster::Datacenter& datacenter = job.cluster.datacenters[0];
  TRY(share_stages(job));  // there are enough devices
  std::vector<Placement> ranks;
  for (int64_t stage = 0; stage < p.pipeline; ++stage) {
    for (int64_t replica = 0; replica < p.data; ++replica) {
      const int64_t first = stage * strides.pipeline + replica * strides.data;
      Placement placement{.rank = static_cast<int32_t>(ranks.size()),
                          .stage = static_cast<int32_t>(stage),
                          .datacenter = datacenter.name,
                          .node = first / datacenter.devices_per_node,
                          .device = first % datacenter.devices_per_node,
                          .replica = static_cast<int32_t>(replica),
                          .shards = p.tensor * p.context};
      for (int64_t shard = 0; !strides.shards_are_neighbours && shard < placement.shards; ++shard) {
        placement.devices.push_back(first + shard % p.tensor * strides.tensor +
                                    shard / p.tensor * strides.context);
      }
      ranks.push_back(std::move(placement));
    }
  }
  return ranks;
}

// Position `s` of pipeline `replica` finds no devices left in `here`.
Error no_room(const Job& job, const Where& where, int64_t s, int64_t replica, size_t here) {
  const Parallelism& p = job.parallelism;
  const cluster::Datacenter& datacenter = job.cluster.datacenters[here];
  const auto infeasible_as = [](std::string message, std::string hint) {
    return Error{ErrorCode::kInfeasible, std::move(message), {}, std::move(hint)};
  };
  if (!p.datacenter_per_replica.empty()) {
    const auto& names = p.datacenter_per_replica;
    int64_t devices = 0;  // of a pipeline
    for (int64_t each = 0; each < p.pipeline; ++each) devices += p.shards_at(each);
    return infeasible_as(
        fmt::format("pipeline {} does not fit: {} has {} devices for {} pipelines of {}", replica,
                    datacenter.name, datacenter.devices(),
                    std::count(names.begin(), names.end(), datacenter.name), devices),
        "fewer stages, or fewer pipelines there");
  }
  const auto& at = where[static_cast<size_t>(s)];
  if (at.size() == 1) {
    const auto taken = std::count(where.begin(), where.begin() + s + 1, at);
    return infeasible_as(fmt::format("stage {} does not fit: {} has {} devices for {} stages x {}",
                                     s, datacenter.name, datacenter.devices(), taken,
                                     replicas_text(job, p.shards_at(s))),
                         "fewer stages there, or fewer replicas");
  }
  return infeasible_as(
      fmt::format("stage {} of pipeline {} does not fit: the {} devices of {} are taken", s,
                  replica, datacenter.devices(), datacenter.name),
      "another datacenter for it in datacenter_per_stage, or more nodes there");
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
  plan.wan_latency = times.latency.value_or(0_s);
  plan.in_flight = times.in_flight;
  plan.cost_source = CostSource::kStageTimes;
}

}  // namespace

Status check_pipelines_are_free(const Job& job) {
  const Parallelism& p = job.parallelism;
  const bool lists = std::any_of(p.datacenter_per_stage.begin(), p.datacenter_per_stage.end(),
                                 [](const auto& names) { return names.size() > 1; });
  if (p.datacenter_per_replica.empty() && !lists) return {};
  return unusable(
      fmt::format("{}: parallelism.{} is given, and a search keeps the replicas of a stage in one "
                  "datacenter",
                  job.file, lists ? "datacenter_per_stage with a list" : "datacenter_per_replica"),
      "tombolo simulate, which takes pipelines where they are, or without this key");
}

Result<std::vector<Placement>> place(const Job& job) {
  const Strides strides = TRY(strides_of(job));
  const Parallelism& p = job.parallelism;
  const bool one_datacenter = job.cluster.datacenters.size() == 1;
  if (one_datacenter && p.tensor_per_stage.empty() && p.datacenter_per_stage.empty() &&
      p.datacenter_per_replica.empty()) {
    return place_by_order(job, strides);
  }
  const Where where = TRY(where_stages_lie(job));
  std::vector<Devices> devices = devices_of(job.cluster);
  std::vector<Placement> ranks;
  for (int64_t s = 0; s < p.pipeline; ++s) {
    const int64_t shards = p.shards_at(s);
    const std::vector<size_t>& at = where[static_cast<size_t>(s)];
    for (int64_t replica = 0; replica < p.data; ++replica) {
      const size_t here = at[at.size() == 1 ? 0 : static_cast<size_t>(replica)];
      const cluster::Datacenter& datacenter = job.cluster.datacenters[here];
      const std::optional<int64_t> first = devices[here].take(shards);
      if (!first) return fail(no_room(job, where, s, replica, here));
      ranks.push_back({.rank = static_cast<int32_t>(ranks.size()),
                       .stage = static_cast<int32_t>(s),
                       .datacenter = datacenter.name,
                       .node = *first / datacenter.devices_per_node,
                       .device = *first % datacenter.devices_per_node,
                       .replica = static_cast<int32_t>(replica),
                       .shards = shards});
    }
  }
  return ranks;
}

namespace {

// [parallelism].layers_per_stage, one number for each stage; empty: as even as possible. A number
// for each position of the pipeline is divided among the stages there.
std::vector<int64_t> given_layers(const model::Model& m, const Parallelism& p) {
  const std::vector<int64_t>& given = p.layers_per_stage;
  if (std::ssize(given) == stages_of(p)) return given;
  bool even = true;
  for (int64_t i = 0; i < std::ssize(given); ++i) {
    even = even && given[static_cast<size_t>(i)] == model::stage_slice(m, p.pipeline, i).layers;
  }
  if (even) return {};
  std::vector<int64_t> layers;
  for (int64_t stage = 0; stage < stages_of(p); ++stage) {
    const int32_t position = position_of(layout_of(p.schedule), static_cast<int32_t>(stage),
                                         static_cast<int32_t>(p.pipeline));
    const int64_t all = given[static_cast<size_t>(position)], chunk = stage / p.pipeline;
    layers.push_back(all / p.virtual_stages + (chunk < all % p.virtual_stages ? 1 : 0));
  }
  return layers;
}

}  // namespace

std::vector<model::Slice> split_layers(const model::Model& m, const Parallelism& p) {
  CHECK(m.layers >= stages_of(p) || ends_stand_alone(p, m.layers) || !p.layers_per_stage.empty(),
        "{} layers in {} stages", m.layers, stages_of(p));
  const std::vector<int64_t> given = given_layers(m, p);
  std::vector<model::Slice> slices;
  const int64_t stages = stages_of(p);
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

Result<Job> job_from_value(const Value& value, const std::string& file) {
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
  if (!sections.prefill.is_null()) job.prefill = TRY(read_prefill(sections.prefill, file));
  if (job.data) {
    TRY(check_share_names(*job.data, job.cluster, file));
    change_paths(*job.data, [&](const std::string& path) { return sibling_path(file, path); });
  }
  if (job.run.init) job.run.init = sibling_path(file, *job.run.init);
  if (job.checkpoint) job.checkpoint->directory = sibling_path(file, job.checkpoint->directory);
  return job;
}

Result<Job> read_job(const std::string& path) { return to_job(TRY(read_job_value(path)), path); }

Result<Plan> lay_out(const Job& job) {
  TRY(check_numbers(job));
  Plan plan;
  plan.name = job.name;
  plan.model = job.model ? *job.model : imagined_model(stages_of(job.parallelism));
  plan.cluster = job.cluster;
  plan.training = job.training;
  plan.optimizer = job.optimizer;
  plan.parallelism = job.parallelism;
  plan.exchange = job.exchange;
  plan.data = job.data;
  plan.run = job.run;
  plan.checkpoint = job.checkpoint;
  plan.prefill = job.prefill;
  for (const model::Slice& slice : split_layers(plan.model, plan.parallelism)) {
    Stage stage{.slice = slice};
    const int64_t tensor =
        plan.parallelism.tensor_at(plan.position_of(static_cast<int32_t>(plan.stages.size())));
    if (job.model) {
      stage.gradients =
          Bytes{static_cast<double>(model::parameters(plan.model, slice)) /
                static_cast<double>(tensor) * gradient_bytes(plan.training.precision)};
    }
    plan.stages.push_back(stage);
  }
  plan.ranks = TRY(place(job));
  plan.boundary = job.model ? model::boundary_bytes(plan.model, plan.training.micro_batch,
                                                    element_bytes(plan.training.precision))
                            : 0_B;
  TRY(during(validate(plan), "laying out " + job.file));
  if (job.stage_times) take_stage_times(*job.stage_times, plan);
  return plan;
}

}  // namespace tombolo::plan
