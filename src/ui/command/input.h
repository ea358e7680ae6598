// From the options of a command line to a Plan, and to its prediction.
#pragma once

#include <string>

#include "base/result.h"
#include "predict/sim/simulate.h"
#include "spec/plan/job.h"
#include "spec/plan/plan.h"
#include "ui/command/command.h"

namespace tombolo::command {

// A job or a Plan file, whichever it is, with the replacements applied and the memory checked. Notes
// (caller.h) say which settings of a job have no effect, and whether a job that asks for strands gets them.
Result<plan::Plan> load_plan(const InputOptions& in);

// The same, where the schedule is still to be chosen: nothing is built or checked.
Result<plan::Plan> open_plan(const InputOptions& in);

// A job, or a Plan as one, with its [exchange] chosen where it says "auto" (decide/across/exchange_choice.h).
// The caller shows its notes. Strands, which these callers leave out, become a note.
Result<plan::Job> read_job(const std::string& path);
// The same for callers that take all of it, or have read it before.
Result<plan::Job> reread_job(const std::string& path);

// Adds a note that strands have no effect, if the job asks for them.
void note_lost_strands(const plan::Job& job);

// As a job, also from a Plan (spec/plan/job_value.h), with the replacements applied: for callers
// that price it again. What is left out of it becomes a note.
Result<plan::Job> load_job(const InputOptions& in);

// The command that makes the same prediction again. Names of outputs stay out of it, so that the
// same input gives the same bytes wherever they are written.
std::string command_line(const std::string& verb, const InputOptions& in);

// Simulates, and records the command and the version in the Trace.
Result<sim::Simulation> predict(const plan::Plan& plan, const sim::Options& options,
                                std::string command);

}  // namespace tombolo::command
