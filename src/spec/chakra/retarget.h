// A trace of R ranks, asked about another number of ranks: replicas are copied, or left out.
//
// What ranks of one replica do together stays as it is. Data-parallel groups (replicas.h) get all
// replicas as members. What they sum stays as large as before. Of what they gather, each member
// contributes less or more, so that the whole stays as large: comm_size of an all-gather, which
// counts what one rank contributes, is divided by the growth of its group and rounded. Computations
// last as traced, also those on a rank's share of a sharded optimizer. A new replica does what the
// traced ones do in turn, so that measured differences between them stay.
//
// Ranks are numbered as before: if replicas lie a fixed distance apart, as in Megatron-Core's
// numbering, they do so again; if not, they follow each other. Groups are renumbered from 1.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "spec/chakra/comm_groups.h"
#include "spec/chakra/replicas.h"
#include "spec/graph/graph.h"

namespace tombolo::chakra {

struct RetargetOptions {
  int64_t ranks = 0;
  std::vector<std::string> data_groups;  // empty: found
};

class Retarget {
 public:
  // Unusable: what find_replicas refuses; a number of ranks that is not a multiple of a replica.
  static Result<Retarget> make(graph::Graphs graphs, const CommGroups& groups,
                               const RetargetOptions& options);

  int32_t ranks() const { return static_cast<int32_t>(replica_of_.size()); }
  graph::Graph graph(int32_t rank) const;  // of the new run
  const CommGroups& groups() const { return groups_; }
  std::string brief() const;
  int64_t nodes() const;  // of all ranks

 private:
  Retarget() = default;
  void number_ranks(int32_t replicas);
  void name_groups();
  int32_t rank_at(int32_t replica, int32_t place) const;
  std::vector<int32_t> members_of(const ReplicaRanks::Joined& group) const;
  int64_t share(int64_t bytes, int64_t members) const;

  graph::Graphs graphs_;
  ReplicaRanks traced_;
  int32_t replicas_ = 0;
  std::vector<std::vector<int32_t>> at_;        // per new replica and place: its rank
  std::vector<int32_t> replica_of_, place_of_;  // per new rank
  CommGroups groups_;
  std::vector<std::vector<std::string>> names_;  // per traced group, new ones per replica, or one
};

// The traces PREFIX.0.et, PREFIX.1.et, ... as many as there are, and the groups of a file (empty:
// none) with those that METADATA nodes declare, which lose their declarations.
struct TracedRun {
  graph::Graphs graphs;
  CommGroups groups;
};
Result<TracedRun> read_run(const std::string& prefix, const std::string& comm_groups);

}  // namespace tombolo::chakra
