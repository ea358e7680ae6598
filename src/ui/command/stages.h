// The stages of a pipeline whose stages differ, as `tombolo plan` and `tombolo estimate` print
// them.
#pragma once

#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

#include "base/value.h"
#include "predict/cost/stage_laws.h"

namespace tombolo::command {

// A line for neighbours in one datacenter with one tensor degree.
void print_stages(std::ostream& out, const std::vector<cost::PlacedStage>& stages);

// "34 ms round trip, then 8 ms a microbatch, then 2 ms for gradients and optimizer"
std::string time_text(const cost::MixedIteration& time);

// "oregon 2, paris 1": stages along the pipeline.
std::string way_text(const std::vector<cost::PlacedStage>& stages);

// "8", or "5, 7 and 8" if pipelines have different numbers; of many the least and the most.
std::string microbatches_text(int64_t most, const std::vector<int64_t>& per_replica);

// One entry per stage.
Value::Array stages_json(const std::vector<cost::PlacedStage>& stages);
Value::Table parts_json(const cost::MixedIteration& time);

// What an iteration's WAN traffic costs: null where no WAN link of the cluster names a price.
Value egress_json(const cluster::Cluster& cluster, Dollars egress);

}  // namespace tombolo::command
