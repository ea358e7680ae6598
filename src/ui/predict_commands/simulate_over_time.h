// What changes from iteration to iteration of a simulation: the rate of each line, the density that a run
// would choose, the period. For `tombolo simulate --iterations`, if a WAN link has a rate_trace or the
// density changes.
#pragma once

#include <ostream>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/value.h"
#include "predict/sim/simulate.h"
#include "spec/plan/plan.h"
#include "ui/predict_commands/predict_commands.h"

namespace tombolo::predict_commands {

// If nothing changes: {.iterations = ...} alone. Unusable: a file that is no rate trace, options that assume
// constant rates.
Result<sim::Options> read_over_time(const SimulateOptions& options, const plan::Plan& plan);
bool is_over_time(const plan::Plan& plan, const sim::Options& options);

void print_over_time(std::ostream& out, const plan::Plan& plan, const sim::Options& options,
                     const sim::Simulation& simulation);
Value over_time_json(const plan::Plan& plan, const sim::Options& options,
                     const sim::Simulation& simulation);

}  // namespace tombolo::predict_commands
