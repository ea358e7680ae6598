// Rank classes: ranks that do the same at the same times, so that one of each class is enough.
//
// Two ranks are of one class if their Programs differ in nothing but which ranks and groups they
// name, and what they name is of one class again: the peers of their messages, matched send by
// send, over as many hops, and the members of their groups. Colours are refined until they are
// stable, as an equitable partition of the graph of ranks.
//
// A group whose members are all of one class, over links that are all alike, is that class's own
// affair: all of them begin together. Any other group tells its members apart by their place in it,
// so that each is of a class of its own; one such group then stands for all that look the same (the
// first and the last stage of a pipeline that sum a tied embedding). A collective of all ranks
// needs all of them to be of one class.
//
// Under the law `analytical` ranks meet only in messages and collectives, so simulating one rank of
// each class is exact as long as all members of every phase of one class end together, which the
// machine checks at every phase (AstraMachine::apart()). One straggler splits its class, and
// everything that it meets.
//
// What ranks do need not be spelled out for all of them: Encounters say whom each meets. Cost:
// rounds * (peers + groups' members over all ranks); rounds are few.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/result.h"
#include "predict/astra/astra_program.h"
#include "predict/astra/astra_system.h"
#include "predict/network/topology.h"

namespace tombolo::astra {

struct RankClasses {
  std::vector<int32_t> class_of;  // per rank
  std::vector<int32_t> first;     // per class: its lowest rank, which stands for it
  // Per group of the RankPrograms: the group that stands for it, where its members are of a class each;
  // -1 where they are all of one class.
  std::vector<int32_t> stand_in;
};

// Whom ranks meet.
struct Encounters {
  struct Peer {
    int32_t rank = 0;
    uint64_t how = 0;  // what decides which send meets which receive
  };
  std::vector<uint64_t> programs;           // per rank: what it does, without who else is named
  std::vector<std::vector<Peer>> peers;     // per rank, in the order in which it first names them
  std::vector<std::vector<int32_t>> joins;  // the same of groups
  std::vector<Group> groups;
  bool all_meet = false;  // in a collective of all ranks
};

// Unusable, with the reason: every rank is of its own class, or classes would not be exact.
Result<RankClasses> find_classes(const Encounters& encounters, const network::Topology& topology,
                                 const SystemSettings& settings);
// The same of what Programs say; nothing where it cannot be done.
std::optional<RankClasses> find_classes(const RankPrograms& workload,
                                        const network::Topology& topology,
                                        const SystemSettings& settings);

// Whether messages of one class could be taken for each other: a rank exchanges messages of equal
// tag and size with several ranks of one class. `workload` needs the Programs of those that stand
// for their classes.
bool messages_are_ambiguous(const RankPrograms& workload, const RankClasses& classes);

}  // namespace tombolo::astra
