#include "predict/cost/stage_laws.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/check.h"
#include "predict/cost/law.h"
#include "spec/schedule/exchange_memory.h"

namespace tombolo::cost {

Configuration stage_configuration(Configuration c, int64_t tensor, bool across) {
  CHECK(tensor >= 1, "a stage on {} devices", tensor);
  c.tensor = tensor;
  c.stages_of_rank = c.virtual_stages;
  c.virtual_stages = 1;  // each of a rank's stages is priced separately
  if (!across) return c;
  c.pipeline = 2;
  c.sequence_parallel = c.sequence_parallel && tensor > 1;
  return c;
}

Configuration stage_configuration(const Configuration& of_all, const plan::Plan& plan,
                                  int32_t stage, bool across) {
  Configuration c =
      stage_configuration(of_all, plan.parallelism.tensor_at(plan.position_of(stage)), across);
  if (c.zero == 0 || !plan.replicas_lie_apart(stage)) return c;
  const int64_t sharing = plan.replicas_that_shard(stage);
  CHECK(sharing >= 1, "ZeRO among different numbers of replicas of stage {}", stage);
  c.global_batch = c.global_batch / c.data * sharing;
  c.data = sharing;
  return c;
}

Result<StageLaws> StageLaws::make(const model::Model& model, const plan::Decisions& decisions) {
  const cluster::Cluster& cluster = decisions.cluster;
  CHECK(!cluster.datacenters.empty(), "a cluster without a datacenter");
  LawSettings settings = settings_of(decisions);
  settings.all_nodes = cluster.datacenters.size() > 1;
  StageLaws out;
  for (const cluster::Datacenter& datacenter : cluster.datacenters) {
    out.laws_.push_back(TRY(during(IterationLaw::make(model, datacenter, settings),
                                   "pricing stages in " + datacenter.name)));
  }
  return out;
}

StagePrice StageLaws::stage(size_t datacenter, const Configuration& c,
                            const model::Slice& slice) const {
  StagePrice price = in(datacenter).stage(c, slice);
  price.update += in(datacenter).constants().stack.host_iteration;
  return price;
}

Hop StageLaws::inside(size_t datacenter, const Configuration& c) const {
  const IterationLaw& law = in(datacenter);
  const Seconds transfer = law.transfer(c);
  return {transfer, transfer * (1 - law.constants().stack.pipeline_overlap), transfer};
}

namespace {

// How replicas of a stage that send at once load the pairs of nodes between two datacenters: parts
// of a replica's message.
struct Crossing {
  int64_t replicas = 0;
  double alone = 0;    // on the pair that carries most of one replica
  double fullest = 0;  // on the pair that carries most of all replicas together
};

Hop hop_over(const cluster::WanLink& link, const WanEnd& from, const WanEnd& to,
             const Crossing& crossing, Bytes size) {
  BytesPerSecond rate = std::min(cluster::flow_rate(link) * (1 / crossing.alone),
                                 link.node_pair_limit * (1 / crossing.fullest));
  if (link.path_limit) rate = std::min(rate, *link.path_limit / real(crossing.replicas));
  for (const WanEnd* end : {&from, &to}) {
    rate = std::min(rate, end->datacenter->scale_out.bandwidth * real(end->shards));
  }
  const Seconds occupancy = size / rate;
  const Seconds transfer = link.one_way_latency + occupancy;
  return {transfer, transfer, occupancy};
}

// Of the replicas that have these two ranks' stages in these two datacenters.
Crossing crossing_alike(const plan::Plan& plan, int32_t from, int32_t to) {
  const auto place = [&](int32_t rank) -> const std::string& {
    return plan.ranks[static_cast<size_t>(rank)].datacenter;
  };
  const int32_t first = from - plan.ranks[static_cast<size_t>(from)].replica;
  const int32_t next = to - plan.ranks[static_cast<size_t>(to)].replica;
  Crossing out;
  std::map<std::pair<int64_t, int64_t>, double> on_pair;
  for (int32_t replica = 0; replica < plan.replicas(); ++replica) {
    if (place(first + replica) != place(from) || place(next + replica) != place(to)) continue;
    ++out.replicas;
    const std::vector<plan::NodePair> pairs =
        plan::node_pairs(plan, first + replica, next + replica);
    int64_t lanes = 0;
    for (const plan::NodePair& pair : pairs) lanes += pair.count;
    for (const plan::NodePair& pair : pairs) {
      const double part = real(pair.count) / real(lanes);
      double& carried = on_pair[{pair.from, pair.to}];
      carried += part;
      out.alone = std::max(out.alone, part);
      out.fullest = std::max(out.fullest, carried);
    }
  }
  return out;
}

Hop hop_of_plan(const plan::Plan& plan, int32_t from, int32_t to, Bytes size) {
  const cluster::Datacenter& source = plan.datacenter_of(from);
  const cluster::Datacenter& target = plan.datacenter_of(to);
  return hop_over(*plan.cluster.link(source.name, target.name),
                  {&source, plan.ranks[static_cast<size_t>(from)].shards},
                  {&target, plan.ranks[static_cast<size_t>(to)].shards},
                  crossing_alike(plan, from, to), size);
}

}  // namespace

Hop wan_hop(const cluster::WanLink& link, const WanEnd& from, const WanEnd& to, int64_t data,
            Bytes size) {
  for (const WanEnd* end : {&from, &to}) {
    CHECK(end->datacenter && end->shards >= 1, "a stage on {} devices of {}", end->shards,
          end->datacenter ? end->datacenter->name : "no datacenter");
  }
  CHECK(data >= 1, "{} replicas of a stage", data);
  // Replicas of a stage on one node, and nodes of one replica.
  const auto on_node = [&](const WanEnd& end) {
    return std::clamp<int64_t>(end.datacenter->devices_per_node / end.shards, 1, data);
  };
  const auto nodes = [](const WanEnd& end) {
    const int64_t each = end.datacenter->devices_per_node;
    return (end.shards + each - 1) / each;
  };
  const double sharing = real(std::min(on_node(from), on_node(to)));
  const double pairs = real(std::min(nodes(from), nodes(to)));
  return hop_over(link, from, to, {data, 1 / pairs, sharing / pairs}, size);
}

std::optional<Hop> wan_hop(const plan::Plan& plan, int32_t from, int32_t to) {
  const cluster::Datacenter& source = plan.datacenter_of(from);
  const cluster::Datacenter& target = plan.datacenter_of(to);
  if (source.name == target.name) return std::nullopt;
  if (plan.wan_transfer) {
    const cluster::WanLink& link = *plan.cluster.link(source.name, target.name);
    const Seconds arrival = *plan.wan_transfer + plan.latency_over(link);
    return Hop{arrival, arrival, *plan.wan_transfer};
  }
  return hop_of_plan(plan, from, to, plan.boundary);
}

namespace {

Status check_pipeline(const plan::Plan& plan, const std::string& file) {
  if (!plan.has_model()) {
    return unusable(file + ": model is missing",
                    "[model] with preset = \"gpt3-175b\" or config = \"config.json\"");
  }
  if (plan.parallelism.virtual_stages == 1) return {};
  const char* why = plan.cluster.datacenters.size() > 1 ? "stages in several datacenters"
                    : !plan.parallelism.tensor_per_stage.empty()
                        ? "stages of different tensor degrees"
                        : "different numbers of microbatches";
  return unusable(
      fmt::format("{}: parallelism.virtual_stages = {}: the law mixed-pipeline, for {}, has one "
                  "stage per rank",
                  file, plan.parallelism.virtual_stages, why),
      "tombolo simulate, which plays every schedule, or virtual_stages = 1");
}

// Between two neighbouring stages, in either direction.
Hop hop_between(const plan::Plan& plan, const StageLaws& laws, const Configuration& of_sender,
                int32_t from, int32_t to) {
  if (const std::optional<Hop> wan = wan_hop(plan, from, to)) return *wan;
  // Imagined times leave nothing to a network.
  if (plan.cost_source == plan::CostSource::kStageTimes) return {};
  return laws.inside(plan.datacenter_index(from), of_sender);
}

// The gradients of a tied embedding, from one end of a pipeline to the other in another datacenter.
Seconds tied_transfer(const plan::Plan& plan, int32_t replica) {
  const int32_t first = plan.rank_of(0, replica);
  const std::optional<int32_t> last = plan.other_end(first);
  if (!last) return {};
  const cluster::Datacenter& source = plan.datacenter_of(first);
  const cluster::Datacenter& target = plan.datacenter_of(*last);
  if (source.name == target.name) return {};
  const Bytes bytes = plan::tied_bytes(plan, plan.model);
  if (plan.wan_transfer) {
    const plan::Channel channel = plan::expected_channel(plan, first, *last);
    return channel.latency + channel.serialisation(bytes);
  }
  return hop_of_plan(plan, first, *last, bytes).transfer;
}

// The first replica of each kind of pipeline.
std::vector<int32_t> one_of_each_kind(const plan::Plan& plan) {
  const std::vector<size_t> kinds = plan::kinds_of_pipelines(plan);
  std::vector<int32_t> out;
  for (int32_t replica = 0; replica < plan.replicas(); ++replica) {
    if (kinds[static_cast<size_t>(replica)] == out.size()) out.push_back(replica);
  }
  return out;
}

// Devices of a stage, by the number of their datacenter.
std::map<size_t, int64_t> devices_of(const plan::Plan& plan, int32_t stage) {
  std::map<size_t, int64_t> devices;
  for (const int32_t rank : plan.replicas_of(stage)) {
    devices[plan.datacenter_index(rank)] += plan.ranks[static_cast<size_t>(rank)].shards;
  }
  return devices;
}

// Of the replica that keeps most.
Bytes kept_for_exchange(const plan::Plan& plan, int32_t stage) {
  Bytes most;
  for (int32_t replica = 0; replica < plan.replicas(); ++replica) {
    const int32_t rank = plan.rank_of(stage, replica);
    most = std::max(most, schedule::exchange_memory(plan, rank, stage).total());
  }
  return most;
}

PlacedStage placed_at(const plan::Plan& plan, const IterationLaw& law, const Configuration& c,
                      int32_t s, int32_t rank) {
  const plan::Stage& stage = plan.stages[static_cast<size_t>(s)];
  const plan::StageCost& cost = plan.cost_on(rank, s);
  const cluster::Datacenter& here = plan.datacenter_of(rank);
  const auto stages = std::ssize(plan.stages);
  const int64_t microbatches = plan.microbatches();
  const int64_t waiting =
      c.all_forwards_first() ? microbatches : std::min<int64_t>(microbatches, stages - s);
  PlacedStage out{.stage = s,
                  .datacenter = here.name,
                  .device = here.device.name,
                  .tensor = c.tensor,
                  .first_layer = stage.slice.first_layer,
                  .layers = stage.slice.layers,
                  .forward = cost.forward,
                  .backward = cost.backward + cost.recompute,
                  .memory = law.stage_memory(c, stage.slice, waiting),
                  .memory_of_device = here.device.memory};
  out.memory.optimizer += kept_for_exchange(plan, s);
  for (const int32_t other : plan.replicas_of(s)) {
    if (&plan.cost_on(other, s) == &cost) out.devices += plan.ranks[other].shards;
  }
  return out;
}

}  // namespace

const PlacedStage& PlanPrediction::fullest() const {
  CHECK(!stages.empty(), "a prediction of no stage");
  const auto fuller = [](const PlacedStage& a, const PlacedStage& b) {
    if (a.fits() != b.fits()) return a.fits();
    return a.memory.total() < b.memory.total();
  };
  const PlacedStage* fullest = &*std::max_element(stages.begin(), stages.end(), fuller);
  for (const PlacedStage& other : elsewhere) {
    if (fuller(*fullest, other)) fullest = &other;
  }
  return *fullest;
}

std::vector<PlacedStage> PlanPrediction::everywhere() const {
  std::vector<PlacedStage> all = stages;
  all.insert(all.end(), elsewhere.begin(), elsewhere.end());
  return all;
}

Result<PlanPrediction> predict_plan(const plan::Plan& plan, const std::string& file) {
  TRY(check_pipeline(plan, file));
  const StageLaws laws = TRY(StageLaws::make(plan.model, plan));
  const Configuration of_all = TRY(configuration_of(plan.parallelism, plan.training, file));
  const bool fp8 = plan.training.precision == plan::Precision::kFp8;
  const auto stages = static_cast<int32_t>(plan.stages.size());
  const auto configuration_at = [&](int32_t stage) {
    return stage_configuration(of_all, plan, stage, laws.across());
  };

  PlanPrediction out;
  const std::vector<int32_t> kinds = one_of_each_kind(plan);
  for (const int32_t replica : kinds) {
    std::vector<StagePass> passes;
    std::vector<Hop> hops;
    std::vector<Seconds> ends;
    for (int32_t s = 0; s < stages; ++s) {
      const int32_t rank = plan.rank_of(s, replica);
      const plan::StageCost& cost = plan.cost_on(rank, s);
      passes.push_back({cost.forward, cost.backward + cost.recompute});
      ends.push_back(cost.update + cost.reduce);
      if (s == 0) continue;
      hops.push_back(
          hop_between(plan, laws, configuration_at(s), plan.rank_of(s - 1, replica), rank));
    }
    ends.front() += tied_transfer(plan, replica);
    const MixedIteration time = mixed_iteration(passes, hops, ends, plan.microbatches_of(replica));
    if (time.iteration > out.time.iteration) out.time = time;
  }
  for (int32_t s = 0; s < stages; ++s) {
    std::set<size_t> placed;
    for (const int32_t replica : kinds) {
      const int32_t rank = plan.rank_of(s, replica);
      const size_t datacenter = plan.datacenter_index(rank);
      const plan::StageCost& cost = plan.cost_on(rank, s);
      const bool unlike = &cost != &plan.stages[static_cast<size_t>(s)].cost;
      if (replica != kinds.front() && !unlike) continue;
      if (!placed.insert(datacenter).second) continue;
      (replica == kinds.front() ? out.stages : out.elsewhere)
          .push_back(placed_at(plan, laws.in(datacenter), configuration_at(s), s, rank));
      for (const std::string& assumed : laws.in(datacenter).constants().assumed) {
        const auto known = std::find(out.assumed.begin(), out.assumed.end(), assumed);
        if (known == out.assumed.end()) out.assumed.push_back(assumed);
      }
    }
    for (const auto& [datacenter, devices] : devices_of(plan, s)) {
      const cluster::Datacenter& place = plan.cluster.datacenters[datacenter];
      out.devices += devices;
      out.peak += usable_peak(place.device, fp8) * real(devices);
    }
  }
  std::stable_sort(out.elsewhere.begin(), out.elsewhere.end(),
                   [&](const PlacedStage& a, const PlacedStage& b) {
                     return plan.cluster.find(a.datacenter) < plan.cluster.find(b.datacenter);
                   });
  out.ledger = ledger::Ledger::of(plan);
  if (const std::string note = ledger::note_on_tied_ends(plan); !note.empty()) {
    out.assumed.push_back(note);
  }
  return out;
}

}  // namespace tombolo::cost
