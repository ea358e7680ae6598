// `tombolo astra` where no files say what every rank does: the workload of a job
// (planner/workload_run.h), or of traces of another number of ranks (graph/retarget.h).
#pragma once

#include <string>

#include "base/result.h"
#include "base/value.h"
#include "graph/retarget.h"
#include "planner/workload_run.h"

namespace tombolo::cli {

struct JobAnswer {
  planner::WorkloadAnswer run;  // its `answer` is taken by whoever prints
  int32_t microbatches = 0;

  std::string brief(const sim::AstraAnswer& answer) const;
  Value to_value(const sim::AstraAnswer& answer) const;
};

// Without a network file or a system file it is the network and the NPUs of the job's cluster
// (planner/workload_network.h).
Result<JobAnswer> run_job(const std::string& job, const planner::WorkloadOptions& workload,
                          const sim::AstraOptions& options);

// The same in two steps, where there are several systems.
Result<planner::Workload> workload_of_job(const std::string& job,
                                          const planner::WorkloadOptions& options);
Result<planner::WorkloadAnswer> run_job(const planner::Workload& workload,
                                        const sim::AstraSystem& system,
                                        const sim::AstraOptions& options);
Result<sim::AstraAnswer> run_retargeted(const graph::RetargetOptions& retarget,
                                        const sim::AstraSystem& system,
                                        const sim::AstraOptions& options, bool notes = false);

Result<sim::AstraAnswer> run_retargeted(const graph::RetargetOptions& retarget,
                                        const sim::AstraOptions& options);

}  // namespace tombolo::cli
