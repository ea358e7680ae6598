// How a group of NPUs lies in a network: along which dimensions, and where.
//
// A group is a product of parts of dimensions if its members are all the NPUs whose coordinate
// along each dimension is one of a few: 16 NPUs of Switch(8) x Switch(8) may be 8 x 2, 4 x 4 or
// 2 x 8 of them. Its collectives can then go from dimension to dimension, each with its share of
// the members. Cost: O(members * dimensions).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "predict/network/topology.h"

namespace tombolo::network {

struct GroupSpan {
  size_t dimension = 0;
  // Where members stand along it, ascending, counted from the first of them; two or more. Empty:
  // everywhere.
  std::vector<int32_t> places;
  int32_t members = 0;
  auto operator<=>(const GroupSpan&) const = default;
};

// The dimensions along which members differ, the first dimension first.
using GroupLayout = std::vector<GroupSpan>;

// Nothing: the group is no such product. CHECKs that no rank stands twice and that there is one.
std::optional<GroupLayout> lay_out(std::span<const int32_t> ranks, const Topology& topology);

// Whether all members of a span have the same distances to the others: not on an arc of a ring.
bool alike(const GroupSpan& span, const Topology& topology);

}  // namespace tombolo::network
