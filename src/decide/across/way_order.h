// Which of two ways is better.
#pragma once

#include <vector>

#include "decide/across/ways.h"

namespace tombolo::across {

// Seconds, or USD, of what a dense iteration is worth; infinite where there is no price.
double score(const Way& way, search::Objective objective);
// What decides between ways that score alike: the cost, or by cost the time.
double other_score(const Way& way, search::Objective objective);

bool is_within(const Way& way, const WayLimits& limits);

// Best first: those within the limits, by the objective; of each run of ways within kTie of its first,
// by the other one.
void put_in_order(std::vector<Way>& ways, search::Objective objective);

// Sets on_front.
void mark_front(std::vector<Way>& ways);

}  // namespace tombolo::across
