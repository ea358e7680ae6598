// Max-min fair sharing of links between flows.
//
// Rates grow together, in proportion to the flows' weights, until a link is full or a flow reaches
// its cap; flows that cross the full link stop there, the others continue. The result is the only
// allocation in which no flow can gain without taking from one that is no better off (rate /
// weight). A flow may load a link with a share of its rate: progressive filling stays the same.
// Law: Bertsekas & Gallager, Data Networks, 2nd ed., section 6.5.2 (progressive filling). Holds for
// long flows with similar round-trip times; docs/laws/fair_share.md states its limits.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "base/units.h"

namespace tombolo::engine {

inline constexpr BytesPerSecond kUnlimited{std::numeric_limits<double>::infinity()};

struct Link {
  BytesPerSecond capacity;  // at least 0
};

struct Flow {
  std::vector<uint32_t> links;  // indices of the links it crosses; one named twice is loaded twice
  double weight = 1;            // above 0; its share of a full link is in proportion
  BytesPerSecond cap = kUnlimited;
  // Of its rate, what links[i] carries: 1/8 of a transfer that eight node pairs carry side by side.
  // Empty: all of it on each.
  std::vector<double> shares = {};

  double share_on(size_t i) const { return shares.empty() ? 1 : shares[i]; }
};

// The rate of each flow, in order. CHECKs that every flow has a weight above 0 and a bound (a link
// or a cap). Cost: O((saturated links + caps reached) * links crossed by all flows); one flow costs
// its links.
std::vector<BytesPerSecond> fair_shares(std::span<const Flow> flows, std::span<const Link> links);

// The same for callers that solve repeatedly over the same links: memory is reused, and a solve
// costs the links of its flows, however many other links there are.
class FairShareSolver {
 public:
  // The links must outlive the solver; capacities are read at each solve.
  explicit FairShareSolver(std::span<const Link> links);

  // rates[i] is of flows[i]; as good until the next solve.
  std::span<const BytesPerSecond> solve(std::span<const Flow* const> flows);

 private:
  std::span<const Link> links_;
  std::vector<double> left_;     // per link: capacity not yet given away for good
  std::vector<double> growing_;  // per link: weight of the flows that still grow
  std::vector<BytesPerSecond> rates_;
  std::vector<double> limits_;
  std::vector<uint32_t> active_, rising_;
};

}  // namespace tombolo::engine
