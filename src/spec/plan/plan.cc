#include "spec/plan/plan.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <string_view>
#include <tuple>

#include "base/check.h"
#include "spec/plan/adaptive_batch.h"
#include "spec/plan/exchange_check.h"
#include "spec/plan/pipeline_ends.h"

namespace tombolo::plan {

const cluster::Datacenter& Plan::datacenter_of(int32_t rank) const {
  CHECK(rank >= 0 && rank < static_cast<int32_t>(ranks.size()), "there is no rank {}", rank);
  const cluster::Datacenter* datacenter = cluster.find(ranks[rank].datacenter);
  CHECK(datacenter, "rank {} sits in an unknown datacenter", rank);
  return *datacenter;
}

layout::Place Plan::place_of(int32_t rank, int64_t shard) const {
  const layout::Placement& placement = ranks[static_cast<size_t>(rank)];
  CHECK(shard >= 0 && shard < placement.shards, "shard {} of {}", shard, placement.shards);
  const int64_t on_node = datacenter_of(rank).devices_per_node;
  const int64_t device = placement.devices.empty()
                             ? placement.node * on_node + placement.device + shard
                             : placement.devices[static_cast<size_t>(shard)];
  return {device / on_node, device % on_node};
}

int64_t Plan::devices() const {
  int64_t sum = 0;
  for (const layout::Placement& placement : ranks) sum += placement.shards;
  return sum;
}

std::vector<int32_t> Plan::replicas_of(int32_t stage) const {
  std::vector<int32_t> members;
  for (int32_t replica = 0; replica < replicas(); ++replica) {
    members.push_back(rank_of(stage, replica));
  }
  return members;
}

namespace {

// Every shard on a device of its own that the cluster has.
Status validate_places(const Plan& plan) {
  std::set<std::tuple<std::string_view, int64_t, int64_t>> taken;
  for (const layout::Placement& placement : plan.ranks) {
    const auto missing = [&] {
      return unusable(
          fmt::format("rank {} sits on a device that the cluster does not have", placement.rank));
    };
    const cluster::Datacenter* datacenter = plan.cluster.find(placement.datacenter);
    if (!datacenter || placement.node < 0 || placement.node >= datacenter->nodes ||
        placement.device < 0 || placement.device >= datacenter->devices_per_node) {
      return missing();
    }
    const int64_t wanted = plan.parallelism.shards_at(placement.stage);
    if (placement.shards != wanted ||
        (!placement.devices.empty() && std::ssize(placement.devices) != wanted)) {
      return unusable(fmt::format("rank {} has {} shards; tensor x context at position {} is {}",
                                  placement.rank, placement.shards, placement.stage, wanted));
    }
    for (const int64_t device : placement.devices) {
      if (device < 0) return missing();
    }
    for (int64_t shard = 0; shard < placement.shards; ++shard) {
      const layout::Place place = plan.place_of(placement.rank, shard);
      if (place.node >= datacenter->nodes) return missing();
      if (taken.emplace(placement.datacenter, place.node, place.device).second) continue;
      return unusable(
          fmt::format("rank {} sits on device {} of node {} in {}, which has a rank "
                      "already",
                      placement.rank, place.device, place.node, placement.datacenter));
    }
  }
  return {};
}

// Between any two datacenters of a stage's replicas gradients are exchanged.
Status validate_replicas(const Plan& plan, int32_t position) {
  const cluster::Datacenter& home = plan.datacenter_of(plan.rank_of(position, 0));
  std::vector<const cluster::Datacenter*> there{&home};
  for (int32_t replica = 1; replica < plan.replicas(); ++replica) {
    const cluster::Datacenter& here = plan.datacenter_of(plan.rank_of(position, replica));
    if (std::find(there.begin(), there.end(), &here) != there.end()) continue;
    for (const cluster::Datacenter* other : there) {
      if (plan.cluster.link(other->name, here.name)) continue;
      return unusable(
          fmt::format("there is no WAN link between {} and {}", other->name, here.name),
          fmt::format(
              "a [[cluster.wan]] for this pair ([[wan]] in a cluster file): replicas of stage "
              "{} in both sum gradients",
              position));
    }
    there.push_back(&here);
  }
  return {};
}

// ZeRO 1 within each datacenter (Megatron-LM's instances of the distributed optimizer).
Status validate_shards_apart(const Plan& plan) {
  if (plan.exchange && plan.exchange->mode != ExchangeMode::kDense) {
    return unusable(
        fmt::format(
            "parallelism.zero = 1 with exchange.mode = \"{}\": where replicas of a stage lie "
            "in several datacenters, each needs all of the optimizer's state",
            to_name(plan.exchange->mode)),
        "zero = 0, or mode = \"dense\"");
  }
  for (int32_t position = 0; position < plan.parallelism.pipeline; ++position) {
    if (plan.replicas_that_shard(position) > 0) continue;
    return unusable(fmt::format("parallelism.zero = 1, and datacenters have different numbers of "
                                "replicas of stage {}: they would shard it differently",
                                position),
                    "zero = 0, or as many replicas in each datacenter");
  }
  return {};
}

Status validate_apart(const Plan& plan) {
  const layout::Parallelism& p = plan.parallelism;
  if (p.context > 1 || p.zero > 1) {
    return unusable(
        fmt::format("replicas of a stage lie in several datacenters, and parallelism.{}",
                    p.context > 1 ? fmt::format("context = {}", p.context)
                                  : fmt::format("zero = {}", p.zero)),
        "context = 1, and zero = 0, or 1: each datacenter shards the optimizer's state among its "
        "own "
        "replicas");
  }
  if (p.zero == 1) TRY(validate_shards_apart(plan));
  for (int32_t position = 0; position < p.pipeline; ++position) {
    TRY(validate_replicas(plan, position));
  }
  return check_exchange(plan);
}

// Neighbouring stages of each pipeline can send to one another.
Status validate_boundaries(const Plan& plan) {
  for (int32_t s = 1; s < static_cast<int32_t>(plan.stages.size()); ++s) {
    for (int32_t replica = 0; replica < plan.replicas(); ++replica) {
      const std::string& before = plan.ranks[plan.rank_of(s - 1, replica)].datacenter;
      const std::string& here = plan.ranks[plan.rank_of(s, replica)].datacenter;
      if (before == here || plan.cluster.link(before, here)) continue;
      return unusable(fmt::format("there is no WAN link between {} and {}", before, here),
                      "a [[cluster.wan]] for this pair ([[wan]] in a cluster file)");
    }
  }
  return {};
}

// The pipelines' microbatches are the batch.
Status validate_batches(const Plan& plan) {
  const std::vector<int64_t>& each = plan.parallelism.microbatches_per_replica;
  if (!each.empty() && std::ssize(each) != plan.parallelism.data) {
    return unusable(fmt::format("microbatches_per_replica has {} numbers for {} pipelines",
                                each.size(), plan.parallelism.data),
                    "one number for each pipeline, or \"auto\"");
  }
  if (plan.parallelism.microbatches_by_speed) {
    return unusable("microbatches_per_replica = \"auto\" is a question, and a Plan is an answer",
                    "numbers, or the job this Plan was made from");
  }
  if (plan.parallelism.strands) {
    return unusable(
        "strands = true is a question, and a Plan is an answer",
        "schedule = \"dualpipev\" or \"w\" with pairs, or the job this Plan was made from");
  }
  int64_t all = 0;
  for (int32_t replica = 0; replica < plan.replicas(); ++replica) {
    if (plan.microbatches_of(replica) < 1) {
      return unusable("global_batch is not a multiple of micro_batch x data");
    }
    all += plan.microbatches_of(replica);
  }
  if (all * plan.training.micro_batch == plan.training.global_batch)
    return check_adaptive_batch(plan);
  if (each.empty()) return unusable("global_batch is not a multiple of micro_batch x data");
  return unusable(
      fmt::format("microbatches_per_replica sums to {}, and global_batch = {} has {} x micro_batch",
                  all, plan.training.global_batch,
                  plan.training.global_batch / plan.training.micro_batch),
      fmt::format("global_batch = {}", all * plan.training.micro_batch));
}

// Samples and labels do not leave the datacenters that hold them.
Status validate_ends(const Plan& plan) {
  const layout::Parallelism& p = plan.parallelism;
  const auto last = static_cast<int32_t>(plan.stages.size()) - 1;
  const auto wrong = [&](int32_t rank, const char* key, const std::vector<std::string>& allowed) {
    const layout::Placement& at = plan.ranks[static_cast<size_t>(rank)];
    return unusable(fmt::format("stage {} of pipeline {} lies in {}, and parallelism.{} names {}",
                                at.stage, at.replica, at.datacenter, key, fmt::join(allowed, ", ")),
                    "parallelism.datacenter_per_stage with the ends of each pipeline where their "
                    "data may be");
  };
  for (const int32_t rank : plan.replicas_of(0)) {
    if (!may_begin_in(p, plan.ranks[static_cast<size_t>(rank)].datacenter))
      return wrong(rank, "first_stage_in", p.first_stage_in);
  }
  for (const int32_t rank : plan.replicas_of(last)) {
    if (!may_end_in(p, plan.ranks[static_cast<size_t>(rank)].datacenter))
      return wrong(rank, "last_stage_in", p.last_stage_in);
  }
  return {};
}

// Of datacenters where replicas of the stage lie, but for the first one's; each once.
Status validate_elsewhere(const Plan& plan) {
  for (int32_t s = 0; s < std::ssize(plan.stages); ++s) {
    std::set<std::string> there;
    for (const int32_t rank : plan.replicas_of(s)) {
      there.insert(plan.ranks[static_cast<size_t>(rank)].datacenter);
    }
    there.erase(plan.ranks[static_cast<size_t>(plan.rank_of(s, 0))].datacenter);
    for (const StageCostIn& other : plan.stages[static_cast<size_t>(s)].elsewhere) {
      if (there.erase(other.datacenter) == 1) continue;
      return unusable(
          fmt::format("stages[{}].elsewhere: \"{}\" stands there twice, or has no replica of the "
                      "stage but its first",
                      s, other.datacenter),
          "one entry for each other datacenter whose devices take another time");
    }
  }
  if (!plan.on_unlike_devices() || plan.pairs.empty()) return {};
  return unusable("pairs hold for devices of one kind, and replicas of a stage work on others",
                  "no pairs: passes one after the other");
}

// Of one rank, in order, each once; neither side ends before it would alone.
Status validate_pairs(const Plan& plan) {
  const auto stages = std::ssize(plan.stages);
  for (size_t i = 0; i < plan.pairs.size(); ++i) {
    const PairCost& pair = plan.pairs[i];
    const auto wrong = [&](const std::string& why, const std::string& hint) {
      return unusable(
          fmt::format("pairs[{}], of stages {} and {}: {}", i, pair.forward, pair.backward, why),
          hint);
    };
    const auto exists = [&](int32_t stage) { return stage >= 0 && stage < stages; };
    if (!exists(pair.forward) || !exists(pair.backward) ||
        plan.position_of(pair.forward) != plan.position_of(pair.backward)) {
      return wrong("they are not of one rank",
                   fmt::format("two of the stages 0 to {} that lie on one rank", stages - 1));
    }
    if (i > 0 && std::pair{plan.pairs[i - 1].forward, plan.pairs[i - 1].backward} >=
                     std::pair{pair.forward, pair.backward}) {
      return wrong("they stand behind others that come later, or twice",
                   "pairs by forward, then by backward");
    }
    if (const std::set<std::string> names(pair.order.begin(), pair.order.end());
        names.size() < pair.order.size()) {
      return wrong("an operator stands in its order twice", "each operator of a layer once");
    }
    const Seconds forward = plan.stages[static_cast<size_t>(pair.forward)].cost.forward;
    const Seconds backward = plan.stages[static_cast<size_t>(pair.backward)].cost.backward;
    const auto late_enough = [](Seconds end, Seconds alone) {  // texts round
      return end.value >= alone.value * (1 - 1e-6) && end.value < 9e9;
    };
    if (!late_enough(pair.forward_end, forward) || !late_enough(pair.backward_end, backward)) {
      return wrong(fmt::format("the forward pass ends after {} and the backward pass after {}; "
                               "alone they take {} and {}",
                               format(pair.forward_end), format(pair.backward_end), format(forward),
                               format(backward)),
                   "ends no earlier than that, and below 290 years");
    }
  }
  return {};
}

}  // namespace

const StageCost& Plan::cost_on(int32_t rank, int32_t stage) const {
  const Stage& here = stages[static_cast<size_t>(stage)];
  for (const StageCostIn& other : here.elsewhere) {
    if (other.datacenter == ranks[static_cast<size_t>(rank)].datacenter) return other.cost;
  }
  return here.cost;
}

bool Plan::on_unlike_devices() const {
  return std::any_of(stages.begin(), stages.end(),
                     [](const Stage& stage) { return !stage.elsewhere.empty(); });
}

bool are_alike(const cluster::Datacenter& a, const cluster::Datacenter& b, int64_t shards) {
  cluster::ScaleUp scale_up = b.scale_up;
  if (std::gcd(shards, a.scale_up.domain) == std::gcd(shards, b.scale_up.domain))
    scale_up.domain = a.scale_up.domain;
  return a.device == b.device && a.scale_up == scale_up && a.scale_out == b.scale_out;
}

std::vector<size_t> unlike_datacenters(const Plan& plan, int32_t stage) {
  const int32_t first = plan.rank_of(stage, 0);
  const cluster::Datacenter& home = plan.datacenter_of(first);
  const int64_t shards = plan.ranks[static_cast<size_t>(first)].shards;
  std::set<size_t> out;
  for (int32_t replica = 1; replica < plan.replicas(); ++replica) {
    const int32_t rank = plan.rank_of(stage, replica);
    if (plan.ranks[static_cast<size_t>(rank)].datacenter == home.name) continue;
    if (!are_alike(home, plan.datacenter_of(rank), shards)) out.insert(plan.datacenter_index(rank));
  }
  return {out.begin(), out.end()};
}

std::vector<size_t> kinds_of_pipelines(const Plan& plan) {
  std::map<std::pair<int64_t, std::vector<std::string_view>>, size_t> known;
  std::vector<size_t> kinds;
  for (int32_t replica = 0; replica < plan.replicas(); ++replica) {
    std::vector<std::string_view> places;
    for (int32_t position = 0; position < plan.parallelism.pipeline; ++position) {
      const int32_t rank = position * plan.replicas() + replica;
      places.push_back(plan.ranks[static_cast<size_t>(rank)].datacenter);
    }
    const auto kind =
        known.try_emplace({plan.microbatches_of(replica), std::move(places)}, known.size());
    kinds.push_back(kind.first->second);
  }
  return kinds;
}

bool Plan::replicas_lie_apart(int32_t stage) const {
  const std::string& home = ranks[static_cast<size_t>(rank_of(stage, 0))].datacenter;
  for (int32_t replica = 1; replica < replicas(); ++replica) {
    if (ranks[static_cast<size_t>(rank_of(stage, replica))].datacenter != home) return true;
  }
  return false;
}

int64_t Plan::replicas_that_shard(int32_t stage) const {
  std::map<std::string_view, int64_t> each;
  for (const int32_t rank : replicas_of(stage)) ++each[ranks[static_cast<size_t>(rank)].datacenter];
  const int64_t first = each.begin()->second;
  const bool alike = std::all_of(each.begin(), each.end(),
                                 [&](const auto& place) { return place.second == first; });
  return alike ? first : 0;
}

bool Plan::replicas_lie_apart() const {
  // The first stages lie at all positions.
  for (int32_t stage = 0; stage < parallelism.pipeline; ++stage) {
    if (replicas_lie_apart(stage)) return true;
  }
  return false;
}

double gradient_bytes(const Decisions& decisions) {
  const Training& training = decisions.training;
  if (training.precision == Precision::kFp32) return 4;
  if (training.precision == Precision::kFp16) return 2;
  const Stack* stack = find_stack(training.stack);
  CHECK(stack, "there is no stack {}", training.stack);
  if (stack->sums_bf16_in_fp32) return 4;
  const auto& places = decisions.cluster.datacenters;
  const bool on_cpus = std::any_of(places.begin(), places.end(), [](const auto& place) {
    return place.device.kind == cluster::DeviceKind::kCpu;
  });
  return on_cpus ? 4 : 2;
}

Bytes tied_bytes(const Decisions& decisions, const model::Model& model) {
  if (!model.tied_embeddings) return {};
  return Bytes{real(model.vocabulary * model.hidden * decisions.parallelism.context) *
               gradient_bytes(decisions)};
}

std::optional<int32_t> Plan::other_end(int32_t rank) const {
  if (!has_model() || !model.tied_embeddings) return std::nullopt;
  const int32_t replica = ranks[static_cast<size_t>(rank)].replica;
  const auto last_stage = static_cast<int32_t>(stages.size()) - 1;
  const int32_t first = rank_of(0, replica), last = rank_of(last_stage, replica);
  if (first == last || (rank != first && rank != last)) return std::nullopt;
  const std::string &from = ranks[static_cast<size_t>(first)].datacenter,
                    &to = ranks[static_cast<size_t>(last)].datacenter;
  if (from != to && !cluster.link(from, to)) return std::nullopt;
  return rank == first ? last : first;
}

bool Plan::exchanges_gradients(int32_t stage) const {
  if (!has_model() || !replicas_lie_apart(stage)) return false;
  return cost_source != CostSource::kStageTimes ||
         stages[static_cast<size_t>(stage)].cost.reduce == 0_s;
}

bool Plan::exchanges_gradients() const {
  for (int32_t stage = 0; stage < std::ssize(stages); ++stage) {
    if (exchanges_gradients(stage)) return true;
  }
  return false;
}

namespace {

Status validate_model(const Plan& plan) {
  if (plan.has_model()) {
    if (plan.model.kv_heads >= 1 && plan.model.ffn >= 1) return {};
    return unusable("the model of a Plan must be resolved: kv_heads and ffn are missing");
  }
  if (plan.boundary.value == 0) return {};
  return unusable(
      fmt::format("boundary = \"{}\": only a model says what stages send, and it is missing",
                  format(plan.boundary)));
}

}  // namespace

Status validate(const Plan& plan) {
  const int64_t chunks = plan.parallelism.virtual_stages;
  if (const auto no = layout::why_not_chunks(plan.parallelism.schedule, chunks); !no.why.empty()) {
    return unusable(fmt::format("virtual_stages = {}: {}", chunks, no.why), no.hint);
  }
  if (plan.stages.size() != static_cast<size_t>(plan.parallelism.pipeline * chunks)) {
    return unusable(
        fmt::format("{} stages for pipeline = {}{}", plan.stages.size(), plan.parallelism.pipeline,
                    chunks == 1 ? "" : fmt::format(" and virtual_stages = {}", chunks)));
  }
  if (plan.ranks.size() != static_cast<size_t>(plan.parallelism.pipeline * plan.parallelism.data)) {
    return unusable(fmt::format("{} ranks for pipeline = {} and data = {}", plan.ranks.size(),
                                plan.parallelism.pipeline, plan.parallelism.data));
  }
  TRY(validate_batches(plan));
  TRY(validate_model(plan));
  int64_t next_layer = 0;
  for (size_t s = 0; s < plan.stages.size(); ++s) {
    const model::Slice& slice = plan.stages[s].slice;
    if (slice.first_layer != next_layer || slice.embedding != (s == 0) ||
        slice.head != (s + 1 == plan.stages.size())) {
      return unusable(fmt::format("stage {} does not continue where stage {} ends", s,
                                  static_cast<int64_t>(s) - 1));
    }
    if (plan.has_model() && slice.layers > plan.model.layers - next_layer) {
      return unusable(
          fmt::format("the stages hold more than the model's {} layers", plan.model.layers));
    }
    next_layer += slice.layers;
  }
  if (plan.has_model() && next_layer != plan.model.layers) {
    return unusable(
        fmt::format("the stages hold {} of the model's {} layers", next_layer, plan.model.layers));
  }
  for (size_t r = 0; r < plan.ranks.size(); ++r) {
    const layout::Placement& placement = plan.ranks[r];
    const auto rank = static_cast<int32_t>(r);
    if (placement.rank != rank || placement.stage != rank / plan.replicas() ||
        placement.replica != rank % plan.replicas()) {
      return unusable(
          fmt::format("ranks[{}] has no place in the Plan: it should be rank {}, stage "
                      "{}, replica {}",
                      r, r, rank / plan.replicas(), rank % plan.replicas()));
    }
  }
  TRY(validate_places(plan));
  TRY(validate_elsewhere(plan));
  TRY(validate_pairs(plan));
  if (plan.replicas_lie_apart()) TRY(validate_apart(plan));
  TRY(validate_boundaries(plan));
  return validate_ends(plan);
}

std::vector<NodePair> node_pairs(const Plan& plan, int32_t from, int32_t to) {
  const int64_t senders = plan.ranks[from].shards, receivers = plan.ranks[to].shards;
  const int64_t lanes = std::max(senders, receivers);
  std::vector<NodePair> pairs;
  for (int64_t lane = 0; lane < lanes; ++lane) {
    const int64_t here = plan.place_of(from, lane * senders / lanes).node;
    const int64_t there = plan.place_of(to, lane * receivers / lanes).node;
    const auto same = std::find_if(pairs.begin(), pairs.end(), [&](const NodePair& pair) {
      return pair.from == here && pair.to == there;
    });
    if (same != pairs.end()) {
      ++same->count;
    } else {
      pairs.push_back({here, there, 1});
    }
  }
  return pairs;
}

Channel channel_between(const Plan& plan, int32_t from, int32_t to) {
  CHECK(from != to, "rank {} needs no channel to itself", from);
  const cluster::Datacenter& source = plan.datacenter_of(from);
  const cluster::Datacenter& target = plan.datacenter_of(to);
  const auto sending = static_cast<double>(plan.ranks[from].shards);
  const auto receiving = static_cast<double>(plan.ranks[to].shards);
  Channel channel;
  const bool imagined = plan.cost_source == CostSource::kStageTimes;
  if (source.name == target.name) {
    channel.link = source.name;
    const bool inside = same_nodes(plan, from, to);
    channel.latency = inside ? source.scale_up.latency : source.scale_out.latency;
    channel.rate = (inside ? source.scale_up.bandwidth : source.scale_out.bandwidth) *
                   std::min(sending, receiving);
    if (imagined) {
      channel.latency = 0_s;
      channel.occupancy = 0_s;
    }
    return channel;
  }
  const cluster::WanLink* link = plan.cluster.link(source.name, target.name);
  CHECK(link, "no WAN link between {} and {}", source.name, target.name);
  channel.wan = true;
  channel.link = source.name + " -> " + target.name;
  channel.latency = link->one_way_latency;
  // The fullest pair of nodes is the last to have its part over.
  int64_t lanes = 0, fullest = 0;
  for (const NodePair& pair : node_pairs(plan, from, to)) {
    lanes += pair.count;
    fullest = std::max(fullest, pair.count);
  }
  channel.rate = std::min(
      {cluster::flow_rate(*link) * (static_cast<double>(lanes) / static_cast<double>(fullest)),
       source.scale_out.bandwidth * sending, target.scale_out.bandwidth * receiving});
  if (link->path_limit) channel.rate = std::min(channel.rate, *link->path_limit);
  if (plan.wan_transfer) {
    channel.latency = plan.latency_over(*link);
    channel.occupancy = plan.wan_transfer;
    channel.unit = plan.boundary;
  }
  return channel;
}

bool same_nodes(const Plan& plan, int32_t from, int32_t to) {
  if (plan.ranks[from].datacenter != plan.ranks[to].datacenter) return false;
  for (const NodePair& pair : node_pairs(plan, from, to)) {
    if (pair.from != pair.to) return false;
  }
  return true;
}

Channel expected_channel(const Plan& plan, int32_t from, int32_t to) {
  Channel channel = channel_between(plan, from, to);
  if (!channel.wan || channel.occupancy) return channel;
  const std::string& source = plan.ranks[from].datacenter;
  const std::string& target = plan.ranks[to].datacenter;
  for (const MeasuredLink& link : plan.measured_links) {
    if ((link.between[0] == source && link.between[1] == target) ||
        (link.between[0] == target && link.between[1] == source)) {
      channel.latency = link.one_way_latency;
      channel.rate = link.rate;
    }
  }
  return channel;
}

std::vector<int32_t> sharers(const Plan& plan, int32_t from, int32_t to) {
  if (plan.parallelism.sharing_in_use() == layout::Sharing::kSpatial) return {};
  const int32_t own = plan.ranks[from].replica;
  const auto place = [&](int32_t rank, int32_t replica) -> const std::string& {
    return plan.ranks[rank - own + replica].datacenter;
  };
  if (place(from, own) == place(to, own)) return {};
  const auto cell = static_cast<int32_t>(plan.parallelism.pipelines_per_cell());
  if (cell == 1) {
    for (int32_t other = 0; other < plan.replicas(); ++other) {
      if (place(from, other) == place(to, other)) return {};
    }
    return {own};
  }
  std::vector<int32_t> out;
  const int32_t first = own - own % cell;
  for (int32_t other = first; other < first + cell; ++other) {
    const bool alike = place(from, other) == place(from, own) && place(to, other) == place(to, own);
    if (alike) out.push_back(other);
  }
  if (out.size() == 1) out.clear();
  return out;
}

Channel shared_channel(const Plan& plan, int32_t from, int32_t to) {
  Channel channel = expected_channel(plan, from, to);
  CHECK(channel.wan, "ranks {} and {} share no WAN", from, to);
  const std::vector<int32_t> members = sharers(plan, from, to);
  CHECK(!members.empty(), "ranks {} and {} send separately", from, to);
  const auto pipelines = static_cast<double>(members.size());
  if (channel.occupancy) {
    channel.occupancy = *channel.occupancy / pipelines;
    return channel;
  }
  const cluster::Datacenter& source = plan.datacenter_of(from);
  const cluster::Datacenter& target = plan.datacenter_of(to);
  const cluster::WanLink& link = *plan.cluster.link(source.name, target.name);
  const int32_t own = plan.ranks[from].replica;
  // Every pipeline carries an equal part; those on one pair of nodes share what it may have.
  std::map<std::pair<int64_t, int64_t>, double> on_pair;  // parts of the transfer
  double fullest = 0;
  for (const int32_t replica : members) {
    const std::vector<NodePair> pairs = node_pairs(plan, from - own + replica, to - own + replica);
    int64_t lanes = 0;
    for (const NodePair& pair : pairs) lanes += pair.count;
    for (const NodePair& pair : pairs) {
      double& part = on_pair[{pair.from, pair.to}];
      part += static_cast<double>(pair.count) / static_cast<double>(lanes) / pipelines;
      fullest = std::max(fullest, part);
    }
  }
  const auto sending = static_cast<double>(plan.ranks[from].shards);
  const auto receiving = static_cast<double>(plan.ranks[to].shards);
  channel.rate =
      std::min({channel.rate * pipelines, std::max(link.node_pair_limit, channel.rate) / fullest,
                source.scale_out.bandwidth * sending, target.scale_out.bandwidth * receiving});
  if (link.path_limit) channel.rate = std::min(channel.rate, *link.path_limit);
  if (pipelines == 1) return channel;
  // All parts but its own leave the sender through its network card, and so they arrive.
  const Bytes others = plan.boundary * ((pipelines - 1) / pipelines);
  channel.latency += others / (source.scale_out.bandwidth * sending) + source.scale_out.latency +
                     others / (target.scale_out.bandwidth * receiving) + target.scale_out.latency;
  return channel;
}

}  // namespace tombolo::plan
