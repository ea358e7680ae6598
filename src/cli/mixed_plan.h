// `tombolo plan` over several datacenters: what planner::search_mixed found, for people, programs
// and files.
#pragma once

#include <ostream>
#include <string>

#include "plan/open_job.h"
#include "planner/mixed.h"

namespace tombolo::cli {

struct MixedPlanOptions {
  std::string job;  // as it was given
  planner::MixedOptions search;
  std::string out;  // plan.json or job.toml of the best; empty: none
  bool json = false;
};

Status plan_mixed(const plan::OpenJob& open, const MixedPlanOptions& options, std::ostream& out);

}  // namespace tombolo::cli
