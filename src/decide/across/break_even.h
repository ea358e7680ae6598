// At which WAN rates another way wins.
//
// Layouts stay, and all WAN rates are so many times what they are, from 1/64 to 64. Winners are found at
// steps of 8, and where two neighbours differ by halving to within 5 %; a way that wins only between two
// steps with one winner is not seen. Cost: a simulation for each way and rate that is not ruled out: a
// way takes no less than at a higher rate, and as long as at both sides where they agree within 0.2 %.
#pragma once

#include <vector>

#include "decide/across/ways.h"

namespace tombolo::across {

// Of ways as they were found, with options.objective, limits, threads and stop. Empty where it was
// stopped. The number of threads changes nothing.
std::vector<WayRange> break_even(const std::vector<Way>& ways, const WaysOptions& options);

}  // namespace tombolo::across
