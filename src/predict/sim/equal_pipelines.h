// Which pipelines of a Plan run alike, so that one of each kind tells how long all of them take.
//
// Two pipelines run alike where they have as many microbatches and their messages cross channels of
// equal laws, and where nothing joins pipelines but collectives, which last as long for each of
// their ranks. So it is within a datacenter, where every rank has ports of its own
// (spec/plan/resources.h). Over a WAN pipelines share paths, and every one is of its own kind.
#pragma once

#include <cstdint>
#include <vector>

#include "predict/sim/channels.h"
#include "spec/plan/plan.h"

namespace tombolo::sim {

// The first pipeline of each kind, ascending. `channels` are the Plan's. O(ranks log ranks).
std::vector<int32_t> one_of_each_kind(const plan::Plan& plan, const Channels& channels);

}  // namespace tombolo::sim
