// When another way wins: at other WAN rates, latencies, prices of egress or of devices.
//
// Layouts are kept, and one property of all links or devices is multiplied by a factor, from 1/64 to
// 64, latencies from 1/8 to 8.
// Winners are determined at factors 8 apart; where two neighbouring factors have different winners, the
// crossing is bisected to within 5 %. A way that wins only between two factors with the same winner is
// missed. Cost: a simulation for each way and factor that is not ruled out (none for prices): a way is
// no worse where links are better or prices lower, and unchanged between two factors at which its
// scores agree within 0.2 %.
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
