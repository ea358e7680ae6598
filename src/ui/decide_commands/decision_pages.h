// --report of plan and select: their answers, as --json prints them, as pages.
//
// What an answer does not hold comes from where it was made: the map from the cluster and the recommended Plan, where the time of
// a way goes from the simulator.
#pragma once

#include <string>
#include <vector>

#include "decide/across/ways.h"
#include "decide/geo/select_job.h"
#include "spec/plan/job.h"
#include "ui/command/output_files.h"

namespace tombolo::decide_commands {

// `why_not`: of each way. Cost: a simulation of each way, as `tombolo simulate` makes it, of those that take seconds at most.
std::string across_page(const Value& answer, const plan::Job& job,
                        const std::vector<across::Way>& ways,
                        const std::vector<std::string>& why_not, int threads,
                        const std::string& command);

// Of one datacenter, or of several with stages in different ones. `best` has everything explicit.
std::string plan_page(const Value& answer, const plan::Job& job, const plan::Job& best,
                      const std::string& command);

std::string select_page(const Value& answer, const plan::Job& job, const std::string& command);

// Opens the file of --report before the work, so that a folder that is missing costs no time; none where
// nothing is asked for. Unusable where it is the file of --out.
Result<std::optional<AtomicFile>> open_page(const std::string& report, const std::string& out);

}  // namespace tombolo::decide_commands
