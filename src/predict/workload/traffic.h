// Who sends how many bytes to whom in one iteration: the matrix between GPUs, by kind of
// parallelism and by where the bytes have to go.
//
// Transformers spread over GPUs use hardly any of the pairs that an any-to-any network offers, and
// the few that leave a scale-up domain stay on their rail (Wang et al. 2023, section 3). This is
// that statement for any job, with numbers. docs/laws/traffic.md has the formulas.
//
// Tensor, context and data parallelism run collectives as rings in the order of ranks. A group with
// several ranks in each of several domains, on the same rails in all, runs them in two phases, a
// ring along each rail and a ring inside each domain (the paper's hierarchical collectives): the
// same bytes, none across rails. Experts exchange tokens all to all, evenly. Pipelines send to the
// next stage and back. Over several datacenters GPUs are where a Plan has them (layout::place), and
// replicas of a stage in different datacenters send what [exchange] says, as the Plan's messages do
// (predict/ledger): per iteration, the mean where not every iteration sends as much.
//
// Stages of different tensor degrees are numbered one after the other. With sequence
// parallelism neighbours then hold other parts of the same activations, and each sends the others
// what they share; without, every device is sent the whole once.
//
// A pair is ordered: a pair of GPUs is two. Nothing is kept per pair: groups are offsets and bases
// (rank_numbering.h), a ring has as many transfers as ranks, an all-to-all is its list of members.
// Cost: O(ranks log ranks) time, O(ranks) memory; 0.1 s for 100,000 GPUs.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/fields.h"
#include "base/result.h"
#include "base/units.h"
#include "predict/workload/traffic_volume.h"
#include "spec/layout/rank_numbering.h"
#include "spec/plan/job.h"

namespace tombolo::workload {

enum class TrafficKind : uint8_t { kTensor, kContext, kExpert, kData, kPipeline };
inline constexpr size_t kTrafficKinds = 5;
constexpr auto enum_names(TrafficKind) {
  return std::to_array<EnumName<TrafficKind>>({{TrafficKind::kTensor, "tensor"},
                                               {TrafficKind::kContext, "context"},
                                               {TrafficKind::kExpert, "expert"},
                                               {TrafficKind::kData, "data"},
                                               {TrafficKind::kPipeline, "pipeline"}});
}

// Where the two GPUs of a pair are. Rail: the same place in their domains.
enum class PairReach : uint8_t { kDomain, kRail, kOtherRail, kOtherDatacenter };
inline constexpr size_t kReaches = 4;
constexpr auto enum_names(PairReach) {
  return std::to_array<EnumName<PairReach>>({{PairReach::kDomain, "domain"},
                                             {PairReach::kRail, "rail"},
                                             {PairReach::kOtherRail, "other-rail"},
                                             {PairReach::kOtherDatacenter, "other-datacenter"}});
}

struct TrafficOptions {
  bool flat_rings = false;  // one ring per group in the order of ranks, wherever it leads
  VolumeOptions volume;
};

struct PairTraffic {
  Bytes bytes;
  int64_t pairs = 0;
};

struct KindTraffic {
  std::array<PairTraffic, kReaches> by_reach;
  Bytes gpu_max;  // what the GPU that sends most sends

  const PairTraffic& at(PairReach reach) const { return by_reach[static_cast<size_t>(reach)]; }
  PairTraffic total() const;
};

// Rail-only networks have no path between GPUs on different rails of different domains: such bytes
// first cross their own domain, to the GPU on the rail of their destination (section 4). Each is
// carried once more, inside a domain.
struct Forwarding {
  Bytes bytes;
  Bytes domains;      // what all domains carry anyway
  Bytes busiest_own;  // of the domain that carries most with forwarding
  Bytes busiest_forwarded;
};

struct TrafficSummary {
  int64_t gpus = 0;
  int64_t pairs = 0;                  // gpus (gpus - 1)
  int64_t pairs_without_traffic = 0;  // a pair that carries two kinds counts once in the rest
  std::array<KindTraffic, kTrafficKinds> by_kind;
  Forwarding forwarding;

  const KindTraffic& of(TrafficKind kind) const { return by_kind[static_cast<size_t>(kind)]; }
  Bytes bytes() const;
};

// `side` x `side` blocks of consecutive GPUs, from `first` on: bytes[kind][from * side + to].
struct TrafficMatrix {
  int64_t first = 0;
  int64_t count = 0;      // GPUs covered
  int64_t per_block = 1;  // the last block may have fewer
  int64_t side = 0;
  std::array<std::vector<double>, kTrafficKinds> bytes;

  double at(TrafficKind kind, int64_t from, int64_t to) const {
    CHECK(from >= 0 && from < side && to >= 0 && to < side, "from block {} to {} of {}", from, to,
          side);
    return bytes[static_cast<size_t>(kind)][static_cast<size_t>(from * side + to)];
  }
};

class Traffic {
 public:
  // Unusable: what rank_numbering.h, traffic_volume.h and layout::place refuse. GPUs that one
  // datacenter or like stages lack are taken to continue the last datacenter, and a note says so.
  static Result<Traffic> make(const plan::Job& job, const TrafficOptions& options);

  int64_t gpus() const { return gpus_; }
  int64_t domain_size() const { return domain_size_; }  // the largest
  const std::vector<std::string>& notes() const { return notes_; }

  TrafficSummary summarize() const;
  // GPUs [first, first + count) in at most `side_max` blocks; where that is fewer than GPUs, a
  // block is whole domains, or whole parts of one. The diagonal holds what stays within a block.
  TrafficMatrix matrix(int64_t first, int64_t count, int64_t side_max) const;

 private:
  struct Place {
    int32_t datacenter = 0;
    int32_t domain = 0;  // over all datacenters
    int32_t local = 0;   // place in the domain: the rail
  };

  class Tally;

  // Stages that are numbered together: all, or each alone where tensor degrees differ.
  struct Section {
    layout::RankNumbering numbering;
    int32_t first = 0;  // rank
    int64_t stage = 0;  // of the first rank
  };

  Traffic() = default;
  Status number(const plan::Job& job);
  Status place(const plan::Job& job);
  void weigh(const plan::Job& job);
  // Of the microbatches of a rank's pipeline, by their mean.
  double work_of(int32_t rank) const {
    return work_.empty() ? 1 : work_[static_cast<size_t>(rank)];
  }
  Status exchange_apart(const plan::Job& job);
  void fill(const cluster::Cluster& cluster);
  static std::vector<int32_t> members_of(const Section& section, const layout::RankGroups& groups,
                                         size_t i);
  PairReach reach(int32_t from, int32_t to) const;
  // visit(kind, from, to, bytes) for every transfer but those of experts; a pair may come twice.
  template <class Visit>
  void for_each_transfer(Visit&& visit) const;
  template <class Visit>
  void for_each_ring(layout::RankGroup groups, TrafficKind kind, Bytes StageVolume::*gathered,
                     Visit&& visit) const;
  template <class Visit>
  void visit_group(const std::vector<int32_t>& members, TrafficKind kind, double bytes,
                   Visit&& visit) const;
  template <class Visit>
  void for_each_stage_transfer(Visit&& visit) const;
  template <class Visit>
  void for_each_unlike_transfer(Visit&& visit) const;
  // visit(members, bytes from each to each other) for every expert group that exchanges anything.
  template <class Visit>
  void for_each_exchange(Visit&& visit) const;

  std::vector<Section> sections_;
  int64_t gpus_ = 0;
  TrafficVolume volume_;
  bool flat_rings_ = false;
  int64_t domain_size_ = 1;
  std::vector<Place> places_;  // by rank
  std::vector<double> work_;   // by rank; empty: all pipelines have as many microbatches
  // Of replicas in different datacenters, in place of their rings.
  struct Transfer {
    int32_t from = 0, to = 0;
    double bytes = 0;
  };
  std::vector<bool> apart_;  // by stage; empty: none
  std::vector<Transfer> transfers_apart_;
  std::vector<std::string> notes_;
};

}  // namespace tombolo::workload
