// `tombolo plan` over several datacenters: what geo::search_mixed found, for people, programs
// and files.
#pragma once

#include <ostream>
#include <string>

#include "decide/geo/mixed.h"
#include "spec/plan/open_job.h"

namespace tombolo::decide_commands {

struct MixedPlanOptions {
  std::string job;  // as it was given
  geo::MixedOptions search;
  std::string out;  // plan.json or job.toml of the best; empty: none
  bool json = false;
};

Status plan_mixed(const plan::OpenJob& open, const MixedPlanOptions& options, std::ostream& out);

}  // namespace tombolo::decide_commands
