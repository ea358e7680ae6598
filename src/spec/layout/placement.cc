#include "spec/layout/placement.h"

#include <algorithm>
#include <numeric>
#include <optional>

namespace tombolo::layout {
namespace {

// What is to be placed where, and the file that says so.
struct Asked {
  const Parallelism& parallelism;
  const cluster::Cluster& cluster;
  const std::string& file;
};

// Devices of a datacenter, handed out one after the other. Over several datacenters the shards of a
// rank stay on one node where a node has room for them, as the search counts them (decide/geo).
class Devices {
 public:
  Devices(const cluster::Datacenter& datacenter, bool aligned)
      : datacenter_(&datacenter), aligned_(aligned) {}

  // The first of this many neighbours, or nothing.
  std::optional<int64_t> take(int64_t shards) {
    const int64_t on_node = datacenter_->devices_per_node;
    const int64_t left = on_node - next_ % on_node;
    if (aligned_ && left < shards && shards <= on_node) next_ += left;
    if (next_ + shards > datacenter_->devices()) return {};
    next_ += shards;
    return next_ - shards;
  }
  // How many ranks of this many shards there is room for from the beginning.
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
std::string replicas_text(const Asked& asked, int64_t shards) {
  return fmt::format("{} replicas{}", asked.parallelism.data,
                     shards == 1 ? "" : fmt::format(" x {} shards", shards));
}

// Stages per datacenter: even shares in the order of the file, cut to what a datacenter has room
// for with all replicas; what is left over goes to those with room to spare, first ones first.
Result<std::vector<int64_t>> share_stages(const Asked& asked) {
  const int64_t stages = asked.parallelism.pipeline;
  const int64_t replicas = asked.parallelism.data;
  const auto count = static_cast<int64_t>(asked.cluster.datacenters.size());
  int64_t shards = 1;  // of the widest stage: where stages differ, people say where each lies
  for (int64_t s = 0; s < stages; ++s) shards = std::max(shards, asked.parallelism.shards_at(s));
  std::vector<int64_t> room;
  for (const Devices& devices : devices_of(asked.cluster)) {
    room.push_back(devices.room(shards) / replicas);
  }
  const int64_t all = std::accumulate(room.begin(), room.end(), int64_t{0});
  const int64_t wanted = stages * replicas * shards;
  if (stages > all && (replicas == 1 || count == 1)) {
    return infeasible(
        fmt::format("{} stages{} need {} devices, the cluster has {}", stages,
                    replicas * shards == 1 ? "" : " x " + replicas_text(asked, shards), wanted,
                    asked.cluster.devices()),
        replicas * shards == 1
            ? fmt::format("pipeline = {}, or more nodes", asked.cluster.devices())
            : fmt::format("{} nodes, or less parallelism",
                          (wanted + asked.cluster.datacenters[0].devices_per_node - 1) /
                              asked.cluster.datacenters[0].devices_per_node));
  }
  if (stages > all) {
    std::string rooms;
    for (int64_t d = 0; d < count; ++d) {
      const cluster::Datacenter& datacenter = asked.cluster.datacenters[d];
      rooms += fmt::format("{}{} with {} devices has room for {}", d == 0 ? "" : ", ",
                           datacenter.name, datacenter.devices(), room[d]);
    }
    return infeasible(
        fmt::format("{} stages x {} do not fit: the replicas of a stage share a datacenter; "
                    "{}: {} stages in all",
                    stages, replicas_text(asked, shards), rooms, all),
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

Result<size_t> find_datacenter(const Asked& asked, const std::string& key,
                               const std::string& name) {
  const auto& all = asked.cluster.datacenters;
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const auto& d) { return d.name == name; });
  if (found != all.end()) return static_cast<size_t>(found - all.begin());
  std::vector<std::string> names;
  for (const auto& each : all) names.push_back(each.name);
  return unusable(
      fmt::format("{}: parallelism.{}: there is no datacenter \"{}\"", asked.file, key, name),
      one_of(name, names));
}

Result<std::vector<size_t>> find_datacenters(const Asked& asked, const std::string& key,
                                             const std::vector<std::string>& names) {
  std::vector<size_t> where;
  for (size_t i = 0; i < names.size(); ++i) {
    where.push_back(TRY(find_datacenter(asked, fmt::format("{}[{}]", key, i), names[i])));
  }
  return where;
}

Result<Where> where_stages_lie(const Asked& asked) {
  const Parallelism& p = asked.parallelism;
  const auto pipeline = static_cast<size_t>(p.pipeline);
  Where where;
  if (!p.datacenter_per_replica.empty()) {
    where.assign(pipeline,
                 TRY(find_datacenters(asked, "datacenter_per_replica", p.datacenter_per_replica)));
    return where;
  }
  if (p.datacenter_per_stage.empty()) {
    const std::vector<int64_t> shares = TRY(share_stages(asked));
    for (size_t d = 0; d < shares.size(); ++d) {
      where.insert(where.end(), static_cast<size_t>(shares[d]), {d});
    }
    return where;
  }
  if (p.datacenter_per_stage.size() != pipeline) {
    return unusable(fmt::format("{}: parallelism.datacenter_per_stage: {} names for {} stages",
                                asked.file, p.datacenter_per_stage.size(), pipeline),
                    "one name per stage, or a list of names with one per pipeline, or none");
  }
  for (size_t s = 0; s < pipeline; ++s) {
    const std::vector<std::string>& names = p.datacenter_per_stage[s];
    const std::string key = fmt::format("datacenter_per_stage[{}]", s);
    if (names.size() == 1) {
      where.push_back({TRY(find_datacenter(asked, key, names[0]))});
    } else {
      where.push_back(TRY(find_datacenters(asked, key, names)));
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

Result<Strides> strides_of(const Asked& asked) {
  const Parallelism& p = asked.parallelism;
  Strides strides;
  int64_t stride = 1;
  for (const Dimension dimension : TRY(dimension_order(p, asked.file))) {
    const auto lay = [&](int64_t& out, int64_t degree) {
      out = stride;
      stride *= degree;
    };
    if (dimension == Dimension::kTensor) lay(strides.tensor, p.tensor);
    if (dimension == Dimension::kContext) lay(strides.context, p.context);
    if (dimension == Dimension::kData) lay(strides.data, p.data);
    if (dimension == Dimension::kPipeline) lay(strides.pipeline, p.pipeline);
  }
  strides.shards_are_neighbours =
      (p.tensor == 1 || strides.tensor == 1) && (p.context == 1 || strides.context == p.tensor);
  const bool stages_are_outermost = p.pipeline == 1 || strides.pipeline * p.pipeline == stride;
  const bool unlike = !p.tensor_per_stage.empty();
  if ((asked.cluster.datacenters.size() > 1 || unlike) &&
      !(strides.shards_are_neighbours && stages_are_outermost)) {
    return unusable(
        fmt::format("{}: parallelism.order = \"{}\": over several datacenters, and with "
                    "tensor_per_stage, stages are outermost and shards innermost",
                    asked.file, p.order),
        "\"tp-cp-ep-dp-pp\"");
  }
  return strides;
}

// In one datacenter, where the order of parallelism says.
Result<std::vector<Placement>> place_by_order(const Asked& asked, const Strides& strides) {
  const Parallelism& p = asked.parallelism;
  const cluster::Datacenter& datacenter = asked.cluster.datacenters[0];
  TRY(share_stages(asked));  // there are enough devices
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
Error no_room(const Asked& asked, const Where& where, int64_t s, int64_t replica, size_t here) {
  const Parallelism& p = asked.parallelism;
  const cluster::Datacenter& datacenter = asked.cluster.datacenters[here];
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
                                     replicas_text(asked, p.shards_at(s))),
                         "fewer stages there, or fewer replicas");
  }
  return infeasible_as(
      fmt::format("stage {} of pipeline {} does not fit: the {} devices of {} are taken", s,
                  replica, datacenter.devices(), datacenter.name),
      "another datacenter for it in datacenter_per_stage, or more nodes there");
}

}  // namespace

Result<std::vector<Placement>> place(const Parallelism& p, const cluster::Cluster& cluster,
                                     const std::string& file) {
  const Asked asked{p, cluster, file};
  const Strides strides = TRY(strides_of(asked));
  const bool one_datacenter = cluster.datacenters.size() == 1;
  if (one_datacenter && p.tensor_per_stage.empty() && p.datacenter_per_stage.empty() &&
      p.datacenter_per_replica.empty()) {
    return place_by_order(asked, strides);
  }
  const Where where = TRY(where_stages_lie(asked));
  std::vector<Devices> devices = devices_of(cluster);
  std::vector<Placement> ranks;
  for (int64_t s = 0; s < p.pipeline; ++s) {
    const int64_t shards = p.shards_at(s);
    const std::vector<size_t>& at = where[static_cast<size_t>(s)];
    for (int64_t replica = 0; replica < p.data; ++replica) {
      const size_t here = at[at.size() == 1 ? 0 : static_cast<size_t>(replica)];
      const cluster::Datacenter& datacenter = cluster.datacenters[here];
      const std::optional<int64_t> first = devices[here].take(shards);
      if (!first) return fail(no_room(asked, where, s, replica, here));
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

// Whether the replicas of any position lie in several datacenters.
bool replicas_lie_apart(const std::vector<Placement>& ranks, int64_t data) {
  return std::any_of(ranks.begin(), ranks.end(), [&](const Placement& at) {
    const auto first = static_cast<size_t>(at.rank / data * data);
    return at.datacenter != ranks[first].datacenter;
  });
}

}  // namespace

void say_datacenters(const std::vector<Placement>& ranks, Parallelism& parallelism) {
  parallelism.datacenter_per_stage.clear();
  parallelism.datacenter_per_replica.clear();
  const bool whole_pipelines = std::all_of(ranks.begin(), ranks.end(), [&](const Placement& at) {
    return at.datacenter == ranks[static_cast<size_t>(at.replica)].datacenter;
  });
  if (whole_pipelines && replicas_lie_apart(ranks, parallelism.data)) {
    for (int64_t replica = 0; replica < parallelism.data; ++replica) {
      parallelism.datacenter_per_replica.push_back(ranks[static_cast<size_t>(replica)].datacenter);
    }
    return;
  }
  for (int64_t position = 0; position < parallelism.pipeline; ++position) {
    std::vector<std::string> names;
    for (int64_t replica = 0; replica < parallelism.data; ++replica) {
      names.push_back(ranks[static_cast<size_t>(position * parallelism.data + replica)].datacenter);
    }
    const bool together = std::count(names.begin(), names.end(), names[0]) == std::ssize(names);
    if (together) names.resize(1);
    parallelism.datacenter_per_stage.push_back(std::move(names));
  }
}

}  // namespace tombolo::layout
