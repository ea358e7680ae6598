// Why not another value? For each axis of a search and each value that the best configuration does
// not have, the constraint that bound it, with numbers.
//
//   pipeline = 1: needs 93.1 GiB of 78 GiB
//   tensor = 16: leaves the scale-up domain of 8: 30.4 s against 9.8 s,
//     +18.1 s tensor communication
//   zero = 3: 12.3 s against 9.8 s, +2.1 s gradients
//
// The best of a family is exact: the search keeps it (search.h). "+" names the part of the
// iteration that grows most from the best configuration to the best of the family. Where both were
// simulated (finals.h) the figures are the simulator's, and otherwise the closed form's of both.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "decide/search/search.h"

namespace tombolo::search {

enum class Obstacle { kMemory, kSlower, kCostlier, kEqual };
constexpr auto enum_names(Obstacle) {
  return std::to_array<EnumName<Obstacle>>({{Obstacle::kMemory, "memory"},
                                            {Obstacle::kSlower, "slower"},
                                            {Obstacle::kCostlier, "costlier"},
                                            {Obstacle::kEqual, "equal"}});
}

struct WhyNot {
  Axis axis = Axis::kTensor;
  int64_t value = 0;
  Obstacle obstacle = Obstacle::kSlower;
  bool beyond_domain = false;  // tensor parallelism over the network, outside the space
  Candidate nearest;           // the best of the family; with kMemory what needs the least memory
  std::string part;            // kSlower and kCostlier: what grows most; empty: nothing does
  double more = 0;             // by how much, in the unit of Candidate::score
  std::string text;            // one line
};

// What was preferred: the best, by the closed form, and all that were simulated, as the simulator has
// them. The closed form puts none that was not simulated before it.
struct Preferred {
  Candidate best;
  std::vector<Candidate> simulated = {};
};

// "tensor = 4", "recompute = none", "sequence_parallel = false".
std::string family_text(Axis axis, int64_t value);

// In the order of axes and values; families that no configuration belongs to are left out.
// With a tensor axis that ends at the domain, the next degree beyond it is examined too, if `beyond`
// names one.
std::vector<WhyNot> why_not(const SearchSpace& space, const Pricer& pricer,
                            const SearchOptions& options, const std::vector<Family>& families,
                            const Preferred& preferred, std::optional<int64_t> beyond);

// The few that say most: of each axis the value that comes closest, and the plain one (1, none, 0).
std::vector<WhyNot> short_list(const std::vector<WhyNot>& all);

}  // namespace tombolo::search
