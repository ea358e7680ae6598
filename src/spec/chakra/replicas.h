// Which ranks of a run are replicas of each other: the data-parallel dimension, found in the
// graphs.
//
// Ranks that exchange messages, or join a group that is not data-parallel, belong to one replica.
// Data-parallel groups join all replicas, with as many ranks of each. Ranks that hold the same
// place in two replicas do the same but for the names of ranks and groups; how long something took
// may differ.
//
// Kinds of groups are told apart by their pattern: the distances of their ranks. Every choice of
// kinds that leaves such replicas is a candidate. What their members sum must moreover come last:
// nothing that waits for a sum, or for the gathering of what was scattered as a sum, computes
// something that messages or collectives of other kinds wait for. (Sums of tensor parallelism are
// followed by those of data parallelism.) If that leaves not exactly one candidate, the choice is
// the user's. Collectives of all ranks without a name are data-parallel wherever there are any.
//
// Cost: O(2^kinds * nodes) at worst; there are few kinds, and most choices fail early.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "spec/chakra/comm_groups.h"
#include "spec/graph/graph.h"

namespace tombolo::chakra {

struct ReplicaRanks {
  struct Joined {
    std::string name;
    std::vector<int32_t> ranks;
    bool data = false;  // joins replicas
  };
  std::vector<Joined> groups;              // all that are used, by number
  std::vector<std::vector<int32_t>> at;    // per replica and place: its rank
  std::vector<int32_t> replica_of;         // per rank
  std::vector<int32_t> place_of;           // per rank
  std::vector<std::vector<int32_t>> same;  // per replica and group of replica 0: its counterpart

  int32_t count() const { return static_cast<int32_t>(at.size()); }
  int32_t places() const { return static_cast<int32_t>(at[0].size()); }
};

// `data_groups`: names of the groups that join replicas, all of them; empty: they are found.
// Unusable: an undeclared group; no replicas, with the reason; several candidates, with the names
// to choose from.
Result<ReplicaRanks> find_replicas(const graph::Graphs& graphs, const CommGroups& groups,
                                   const std::vector<std::string>& data_groups);

}  // namespace tombolo::chakra
