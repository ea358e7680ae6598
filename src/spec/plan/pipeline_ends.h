// Where pipelines may begin and end: samples and labels stay in the datacenters that hold them.
#pragma once

#include <string_view>

#include "base/result.h"
#include "spec/cluster/cluster.h"
#include "spec/layout/parallelism.h"

namespace tombolo::plan {

// [parallelism] first_stage_in and last_stage_in; where these are empty, anywhere.
bool may_begin_in(const layout::Parallelism& parallelism, std::string_view datacenter);
bool may_end_in(const layout::Parallelism& parallelism, std::string_view datacenter);
bool has_fixed_ends(const layout::Parallelism& parallelism);

// "first_stage_in = [lab], last_stage_in = [cloud]"; those that are given.
std::string text_of_ends(const layout::Parallelism& parallelism);

// Keeps the names that are datacenters of `part`. False where none of those that were given is left: no
// pipeline may begin, or end, in this part.
bool restrict_ends(layout::Parallelism& parallelism, const cluster::Cluster& part);

// Unusable: a name in [parallelism], there or of a stage or a pipeline, that is no datacenter's.
Status check_names_of_places(const layout::Parallelism& parallelism,
                             const cluster::Cluster& cluster, const std::string& file);

}  // namespace tombolo::plan
