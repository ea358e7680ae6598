// One setting of the search over several datacenters, priced: what stages take and hold in each
// datacenter. A setting fixes everything but datacenters, their order, stages and layers.
//
// Prices are asked for when first needed and kept; one thread uses an object at a time.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "decide/geo/mixed_bound.h"
#include "decide/geo/mixed_law.h"
#include "decide/geo/mixed_partition.h"
#include "spec/plan/job.h"

namespace tombolo::geo {

struct MixedSetting {
  std::vector<int64_t> tensor;  // by datacenter; 0: cannot be used
  int64_t data = 1;
  int64_t micro_batch = 1;
  model::Recompute recompute = model::Recompute::kNone;
  int64_t zero = 0;
  // Sets of datacenters, as bits, of each of which a plan uses one: those of a kind of devices for
  // which this setting differs from another. Without one of them the plans are the other's.
  std::vector<uint64_t> must_use;

  bool operator==(const MixedSetting&) const = default;
};

// How many datacenters a subset has: from `least` to `most`.
struct SetSizes {
  size_t least = 1, most = 1;
};

class PricedSetting {
 public:
  PricedSetting(const plan::Job& job, const MixedLaw& law, const MixedSetting& setting,
                std::optional<bool> sequence_parallel);

  const MixedSetting& setting() const { return setting_; }
  int64_t microbatches() const { return microbatches_; }
  int64_t layers() const { return layers_; }
  Bytes boundary() const { return boundary_; }

  // Stages that a datacenter has devices for; tensor groups do not straddle scale-up domains.
  int64_t room(size_t datacenter) const { return zones_[datacenter].room; }
  // Whether samples, or labels, are there or may go there.
  bool may_be_first(size_t datacenter) const { return zones_[datacenter].may_be_first; }
  bool may_be_last(size_t datacenter) const { return zones_[datacenter].may_be_last; }
  double layer_min(size_t datacenter) const { return zones_[datacenter].layer; }
  double end_min(size_t datacenter) const { return zones_[datacenter].end; }
  double rate(size_t datacenter) const { return zones_[datacenter].rate; }
  const cost::Hop& inside(size_t datacenter) const { return zones_[datacenter].inside; }
  cost::Hop wan(const cluster::WanLink& link, size_t from, size_t to) const;
  // The gradients of a tied embedding, where the ends of a pipeline lie there; nothing inside a
  // datacenter, or where no link joins them.
  Seconds tied(size_t first, size_t last) const;
  cost::Configuration configuration(size_t datacenter) const;

  const StageTable& table(size_t datacenter, bool embedding, bool head);
  // The most layers of a stage that memory holds, by row of its table.
  const std::vector<int64_t>& most(size_t datacenter, bool embedding, bool head, int64_t in_flight);
  // Layers that `stages` neighbouring stages hold, the last of which has `after` stages behind it;
  // without embedding and head.
  int64_t held(size_t datacenter, int64_t after, int64_t stages);

 private:
  struct Zone {
    int64_t room = 0;
    bool may_be_first = true, may_be_last = true;
    double layer = 0, end = 0, rate = 0;
    cost::Hop inside;
    std::array<std::unique_ptr<StageTable>, 4> tables;
    std::array<std::vector<std::vector<int64_t>>, 4> most;  // [ends][in flight - 1]
    std::vector<int64_t> held{0};                           // sums over in flight
  };

  static size_t ends(bool embedding, bool head) { return (embedding ? 1 : 0) + (head ? 2 : 0); }
  void price(size_t datacenter);
  StageNumbers numbers(size_t datacenter, const model::Slice& slice) const;

  const plan::Job& job_;
  const MixedLaw& law_;
  MixedSetting setting_;
  std::optional<bool> sequence_parallel_;
  int64_t microbatches_, layers_, special_;  // special: first layers that differ
  Bytes boundary_;
  std::vector<Zone> zones_;
};

// What is left to find when it is known which datacenters a pipeline visits, with how many stages each:
// hops are those between them.
PartitionProblem partition_problem(PricedSetting& priced, const std::vector<size_t>& order,
                                   const std::vector<int64_t>& stages,
                                   const std::vector<cost::Hop>& hops);

// In which orders a pipeline may visit a set of datacenters, neighbours being linked, short ways
// first: all orders of up to six; of more the way of nearest neighbours from each start and back,
// with parts reversed while that shortens it (2-opt: Croes, "A method for solving
// traveling-salesman problems", 1958). transfer[a][b] is the length of a step, infinite without a
// link. may_be_first and may_be_last say of each datacenter whether it may be at that end. Where none of
// these ways has links all along, any that has.
std::vector<std::vector<size_t>> orders_of(const std::vector<size_t>& datacenters,
                                           const std::vector<std::vector<double>>& transfer,
                                           const std::vector<bool>& may_be_first,
                                           const std::vector<bool>& may_be_last);

}  // namespace tombolo::geo
