// The terms of a job on which a rank and its launcher must agree.
//
// A rank that its host started performs the launcher's Plan. Its own job file says where this host
// keeps files and data; of the rest it is a copy, which may be an old one. So the rank's command
// leaves the terms that decide what is trained to its worker, which compares them before it loads
// anything. Folders, data, threads and names may differ; so may what a hardware file decides.
#pragma once

#include <string>

#include "base/result.h"
#include "spec/plan/plan.h"

namespace tombolo::join {

// One line of JSON.
std::string job_terms(const plan::Plan& plan);

// Unusable, naming the first key that differs and both values. `own`: what job_terms() said.
Status check_job_terms(const std::string& own, const plan::Plan& plan);

}  // namespace tombolo::join
