// simulate --prefill: what a job's bubbles carry of recorded requests.
#pragma once

#include <ostream>

#include "base/result.h"
#include "base/value.h"
#include "predict/prefill_sim/prefill_run.h"
#include "spec/plan/plan.h"
#include "ui/predict_commands/predict_commands.h"

namespace tombolo::predict_commands {

// Simulates the Plan until its period is known, then replays the requests. Verifies the
// placements if --check is given. By the machine's clock.
Result<prefill_sim::PrefillReport> simulate_prefill(const SimulateOptions& options,
                                                    const plan::Plan& plan);

void print_prefill(std::ostream& out, const plan::Plan& plan,
                   const prefill_sim::PrefillReport& report);
void add_prefill(Value::Table& answer, const prefill_sim::PrefillReport& report);

}  // namespace tombolo::predict_commands
