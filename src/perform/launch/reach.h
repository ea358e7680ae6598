// Which of two neighbours calls the other.
//
// Whoever can dial dials: the lower rank, if the higher one can be reached, else the higher one, if
// the lower can. Where neither can, both call the coordinator, which splices the two calls
// (link/splice.h).
//
// The launcher finds out who can be reached: it opens a connection to where each rank of another
// host says that it listens. That is the coordinator's view. Two ranks behind one router reach each
// other although it reaches neither, so a rank it cannot reach counts as reachable inside its
// datacenter, where nothing better is known; one that says itself that nobody reaches it does not.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "spec/plan/plan.h"

namespace tombolo::launch {

enum class Reach : int32_t { kAll = 0, kDatacenter = 1, kNobody = 2 };  // by whom

struct Meeting {
  bool dials = false;    // the other rank is called, else it calls
  bool spliced = false;  // both call the coordinator
  bool operator==(const Meeting&) const = default;
};

// How `rank` meets `peer`. `reach` is by rank, as the launcher told all (Start); empty: everybody
// can be reached. Both ranks come to the same answer.
Meeting meeting(const plan::Plan& plan, const std::vector<int32_t>& reach, int32_t rank,
                int32_t peer);

// The links that need a splice, the lower rank first, in ascending order.
std::vector<std::pair<int32_t, int32_t>> spliced_links(const plan::Plan& plan,
                                                       const std::vector<int32_t>& reach);
// A line for people.
std::string spliced_note(const std::vector<std::pair<int32_t, int32_t>>& links);

}  // namespace tombolo::launch
