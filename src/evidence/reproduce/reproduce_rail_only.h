// What the rail-only paper says of domain size, bandwidth and batch (figures 9 to 11, sections 6.2
// to 6.4) and of collectives on rails (appendices A and D), beside our figures.
//
// The figures' curves are not printed as numbers; the text quotes gains and gaps, and these are the
// rows. It leaves open what its search may choose and what "gain" divides by. We search with
// fastest_rail_only's defaults and state the reading in each row's name: figure 9 speaks of time
// saved, figure 10 of throughput won, and the other reading misses by up to ten points.
//
// Source: Wang et al., "How to Build Low-cost Networks for Large Language Models (without
// Sacrificing Performance)?", 2023. docs/laws/rail_only_search.md.
#pragma once

#include <vector>

#include "evidence/reproduce/reproduce.h"

namespace tombolo::reproduce {

std::vector<Table> rail_only_figures();

}  // namespace tombolo::reproduce
