// When another way wins: at other WAN rates, latencies, prices of egress or of devices.
//
// Layouts stay, and one property of all links or devices is so many times what it is, from 1/64 to 64,
// latencies from 1/8 to 8.
// Winners are found at steps of 8, and where two neighbours differ by halving to within 5 %; a way that
// wins only between two steps with one winner is not seen. Cost: a simulation for each way and factor
// that is not ruled out (none for prices): a way is no worse where links are better or prices lower, and
// as good as at both sides where they agree within 0.2 %.
#pragma once

#include <vector>

#include "decide/across/ways.h"

namespace tombolo::across {

// Factors from one over it to it.
double break_even_range(BreakEvenAxis axis);

// Of ways as they were found, with options.objective, limits, threads and stop. Empty where it was
// stopped. The number of threads changes nothing.
std::vector<WayRange> break_even(const std::vector<Way>& ways, BreakEvenAxis axis,
                                 const WaysOptions& options);

}  // namespace tombolo::across
