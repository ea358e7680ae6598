// What `tombolo convert` makes of execution traces, and of Plans for other simulators.
#pragma once

#include <ostream>

#include "cli/commands.h"
#include "graph/trace_format.h"
#include "plan/job.h"
#include "plan/plan.h"

namespace tombolo::cli {

// Into the other form, a drawing or statistics. The file is read twice and never held: first to see
// whether its graph is sound (or what has to be dropped), then to write.
Status convert_chakra(const ConvertOptions& options, graph::TraceFormat format, std::ostream& out);

// OUT.RANK.et for each rank, and OUT.groups.json where collectives join some ranks only.
Status write_plan_as_chakra(const plan::Plan& plan, const ConvertOptions& options,
                            std::ostream& out);

// The same of a job whose layers are split in ways that no Plan has yet (planner/workload.h): rank
// by rank, as many as there are.
Status write_job_as_chakra(const plan::Job& job, const ConvertOptions& options, std::ostream& out);

// Traces of all ranks of a run, with another number of data-parallel replicas (graph/retarget.h).
Status convert_retargeted(const ConvertOptions& options, std::ostream& out);

}  // namespace tombolo::cli
