// Which pipelines of a Plan run alike, so that one of each kind tells what all of them do.
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

struct PipelineSample {
  std::vector<int32_t> replicas;  // the first pipeline of each kind, ascending
  std::vector<int32_t> like;      // of every pipeline: the one in `replicas` that it runs like
  bool all = true;                // whether every pipeline is of its own kind
  Channels channels = {};         // of the Plan, of all its pipelines; unless `all`
};

// O(ranks log ranks).
PipelineSample one_of_each_kind(const plan::Plan& plan);
// Every pipeline, whatever it does.
PipelineSample all_pipelines(const plan::Plan& plan);

}  // namespace tombolo::sim
