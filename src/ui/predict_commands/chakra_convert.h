// What `tombolo convert` makes of execution traces, and of Plans for other simulators.
#pragma once

#include <ostream>

#include "spec/chakra/trace_format.h"
#include "spec/plan/job.h"
#include "spec/plan/plan.h"
#include "ui/predict_commands/predict_commands.h"

namespace tombolo::predict_commands {

// Into the other form, a drawing or statistics. The file is read twice and never held: first to see
// whether its graph is sound (or what has to be dropped), then to write.
Status convert_chakra(const ConvertOptions& options, chakra::TraceFormat format, std::ostream& out);

// OUT.RANK.et for each rank, and OUT.groups.json where collectives join some ranks only.
Status write_plan_as_chakra(const plan::Plan& plan, const ConvertOptions& options,
                            std::ostream& out);

// The same of a job whose layers are split in ways that no Plan has yet (workload/workload.h): rank
// by rank, as many as there are.
Status write_job_as_chakra(const plan::Job& job, const ConvertOptions& options, std::ostream& out);

// Traces of all ranks of a run, with another number of data-parallel replicas (chakra/retarget.h).
Status convert_retargeted(const ConvertOptions& options, std::ostream& out);

}  // namespace tombolo::predict_commands
