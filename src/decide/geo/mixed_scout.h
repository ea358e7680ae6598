// A first look at a setting by its chains (mixed_chain.h): plans that are good, and what none is better than.
//
// The search that follows goes through datacenters, orders and stages one after the other. It needs a
// good plan to cut by and bounds that are near the truth, and for many datacenters it does not come to
// its end. Scouting asks for shorter and shorter periods until there is none, and then for shorter and
// shorter round trips.
#pragma once

#include <vector>

#include "decide/geo/mixed_search.h"

namespace tombolo::geo {

// How closely a setting is looked at; each builds on what was found before.
struct Look {
  double period;       // ends where the period is known to this share of itself
  bool round = false;  // then round trips, until the bound is this near to the best plan
};

// A setting, with what is known of it.
struct Prospect {
  double least = 0;  // no plan takes less time
  size_t setting = 0;
  // No plan has a period below `low`; some chain has one of `high`.
  double low = 0, high = kInfinity;
};

// By time, subsets of these sizes. Raises what is known of the prospect, at most to `bar`, and returns
// plans on the way that are below it.
MixedFindings scout(const MixedTask& task, const MixedSetting& setting, SetSizes sizes, double bar,
                    const Look& look, Prospect& prospect);

}  // namespace tombolo::geo
