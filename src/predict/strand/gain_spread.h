// How sure a gain is: the same plan under other times and paces, as uncertain as they were measured.
//
// The gain is the time of both strands one after the other over that of the plan. Errors of one kind
// of operator are correlated (a law that prices products too low does so for all of them), and so
// are paces between two kinds; measured times have independent errors. Errors are normal, `draws` of
// them from a named random stream: equal seeds, equal answers.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "predict/strand/strand_pair.h"

namespace tombolo::strand {

struct Uncertainty {
  double law = 0.1;              // of operators priced by the law, relative: docs/results
  std::vector<double> measured;  // of each operator of the pair, relative; 0 or left out: the law's
  int draws = 200;
  uint64_t seed = 1;
};

struct GainSpread {
  double expected = 1;
  double low = 1;   // one draw in twenty is below
  double high = 1;  // one in twenty is above
};

// `seconds_of` times the plan on another pair. Cost: two replays per draw.
GainSpread gain_spread(const StrandPair& pair, const Uncertainty& uncertainty,
                       const std::function<double(const StrandPair&)>& seconds_of);

// Both strands, one after the other.
double sequential_seconds(const StrandPair& pair);

}  // namespace tombolo::strand
