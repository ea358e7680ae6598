// Rank classes: ranks that do the same at the same times, so that one of each class is enough.
//
// Two ranks are of one class if their Programs differ in nothing but which ranks and groups they
// name, and what they name is of one class again: the peers of their messages, matched send by
// send, over as many hops, and the members of their groups. Colours are refined until they are
// stable, as an equitable partition of the graph of ranks. A group must be of one class throughout,
// and all its links alike; a collective of all ranks needs all of them to be of one class.
//
// Under the law `analytical` ranks meet only in messages and collectives, so simulating one rank of
// each class is exact as long as all members of every phase end together, which the machine checks
// at every phase (AstraMachine::apart()). One straggler splits its class, and everything that it
// meets.
//
// Cost: rounds * (sends + receives + collectives over all ranks); rounds are few.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "network/topology.h"
#include "sim/astra_program.h"
#include "sim/astra_system.h"

namespace tombolo::sim {

struct RankClasses {
  std::vector<int32_t> class_of;  // per rank
  std::vector<int32_t> first;     // per class: its lowest rank, which stands for it
};

// Nothing where every rank is of its own class, or classes would not be exact.
std::optional<RankClasses> find_classes(const Workload& workload, const network::Topology& topology,
                                        const SystemSettings& settings);

}  // namespace tombolo::sim
