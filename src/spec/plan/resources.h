// What the bytes of a Plan pass: resources that have a capacity, and the share of a transfer that
// each of them carries.
//
//   scale-up out, in    the ports of a rank's devices to the fabric of their node
//   network out, in     their cards to the network of the datacenter, which WAN traffic passes, too
//   node pair           what the provider lets two nodes of two datacenters have, in one direction
//   path                what all pairs of nodes of two datacenters have, in one direction
//
// Every sender gets its route here, and lets the simulator share the resources on it
// (docs/laws/fair_share.md): then no prediction moves more than a resource carries, however many
// transfers meet on it. The validator of Traces (predict/sim/trace_check.h) adds up the same
// routes.
//
// The shards of a rank send and receive equal parts side by side, so that the ports of all of them
// are one resource, as wide as all together. Cost of a route: O(shards of both ranks, or of a
// cell).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "base/units.h"
#include "spec/plan/plan.h"

namespace tombolo::plan {

enum class ResourceKind : uint8_t {
  kScaleUpOut,
  kScaleUpIn,
  kNetworkOut,
  kNetworkIn,
  kNodePair,
  kPath
};

struct Resource {
  ResourceKind kind = ResourceKind::kPath;
  std::string name;  // "rank 3, network out", "oregon node 0 -> paris node 1", "oregon -> paris"
  BytesPerSecond capacity;
  // Of a node pair: its link, counted in the cluster's list of them.
  std::optional<size_t> wan = {};
};

// Of each byte that is sent, `share` bytes pass the resource.
struct Use {
  uint32_t resource = 0;
  double share = 1;
  bool operator==(const Use&) const = default;
};
using Route = std::vector<Use>;

// The resources of a Plan, numbered as they are first used. Keeps a reference to the Plan.
class Resources {
 public:
  explicit Resources(const Plan& plan) : plan_(plan) {}

  const std::vector<Resource>& all() const { return all_; }

  // A message from one rank to another. Empty where [stage_times] says how long it takes.
  Route message(int32_t from, int32_t to);
  // One that pipelines of a DP-cell carry together (shared_channel): an equal part over the nodes of
  // each that shares. The sender's card scatters all of it, the receiver's gathers.
  Route shared_message(int32_t from, int32_t to);

  // A rank's part in the gradient all-reduce of its stage, for each byte of gradients that one of
  // its devices has: a reduce-scatter inside the node and between nodes, and a gather back; with
  // ZeRO the reduce-scatter alone, as gathers of parameters hide behind the next forward pass. Over
  // nodes a device passes on what its node has summed. Empty where there is one replica, where
  // [stage_times] says how long a sum takes, and where replicas are in different datacenters and
  // sum by messages.
  Route sum_of_gradients(int32_t rank);

 private:
  using Key = std::tuple<ResourceKind, int64_t, int64_t, int64_t, int64_t>;

  uint32_t port(ResourceKind kind, int32_t rank);
  void cross_wan(int32_t from, int32_t to, double share, Route& route);
  uint32_t find(const Key& key, std::string name, BytesPerSecond capacity);
  int64_t index_of(const std::string& datacenter) const;
  const std::map<int64_t, double>& who_sums(int32_t stage);

  const Plan& plan_;
  std::vector<Resource> all_;
  std::map<Key, uint32_t> numbers_;
  std::map<int32_t, std::map<int64_t, double>> summing_;  // who_sums, by stage
};

}  // namespace tombolo::plan
