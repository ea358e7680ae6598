// Where every shard of every rank sits: a function of the parallelism and the cluster, unless the job names places.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "spec/cluster/cluster.h"
#include "spec/layout/parallelism.h"

namespace tombolo::layout {

// One rank: a position of one pipeline, and the devices that work there as one, its shards
// (tensor x context; experts are spread over the shards of replicas). In the simulator one actor
// stands for all of them. With virtual stages a position holds several of the Plan's stages
// (position_of).
//
// Ranks are numbered as Megatron's order "tp-cp-ep-dp-pp" numbers whatever is outside of a shard,
// innermost first:
//   rank = position x data + replica
// Replicas of a stage sum their gradients, wherever they lie.
struct Placement {
  int32_t rank = 0;
  int32_t stage = 0;  // the position
  std::string datacenter;
  int64_t node = 0;     // of the first shard
  int64_t device = 0;   // on that node
  int32_t replica = 0;  // which pipeline
  int64_t shards = 1;
  // Of each shard, node x devices_per_node + device. Left out: those that follow the first one.
  std::vector<int64_t> devices = {};

  bool operator==(const Placement&) const = default;
};

template <class Archive>
void describe(Archive& a, Placement& placement) {
  a.required("rank", placement.rank, "its number");
  a.required("stage", placement.stage, "its position in the pipeline");
  a.optional("replica", placement.replica, "which pipeline");
  a.required("datacenter", placement.datacenter, "where");
  a.required("node", placement.node, "of its first device");
  a.required("device", placement.device, "on that node");
  a.optional("shards", placement.shards, "devices that work as one");
  a.optional(
      "devices", placement.devices,
      "node x devices_per_node + device, of each shard; left out: those that follow the first");
  a.check(placement.shards >= 1 && placement.shards <= 1'000'000, "shards",
          "must lie between 1 and 1000000");
}

// Where one device is.
struct Place {
  int64_t node = 0;
  int64_t device = 0;
  auto operator<=>(const Place&) const = default;
};

// Where the ranks sit, in their order; of the parallelism nothing else is checked than that it can
// be placed. In one datacenter devices follow [parallelism].order. Of several, each has contiguous
// stages, evenly shared in the order of the file as far as its devices go (all replicas of a stage
// in one), unless [parallelism] says where they lie.
//
// Infeasible where the cluster has too few devices; unusable: an order that names a dimension twice
// or leaves out one that is split, a datacenter that is not there. `file` is for messages.
Result<std::vector<Placement>> place(const Parallelism& parallelism,
                                     const cluster::Cluster& cluster, const std::string& file);

// Makes [parallelism] say where the ranks sit: datacenter_per_replica where each pipeline is within
// one datacenter but not all are in the same, else datacenter_per_stage.
void say_datacenters(const std::vector<Placement>& ranks, Parallelism& parallelism);

}  // namespace tombolo::layout
