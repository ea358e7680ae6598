// The checkpoint that a run begins with, in the folder of the launcher's host.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "perform/run/launcher.h"
#include "perform/state/checkpoint.h"
#include "spec/plan/plan.h"

namespace tombolo::run {

bool takes_checkpoints(const plan::Plan& plan);

// The newest readable checkpoint from before the step `below`, if there is one. `goes_on`: a run that was cut short
// continues. `note` gets a line for each checkpoint that cannot be read. Reads only. Unusable if --resume finds none,
// if there is one but neither --resume nor `goes_on` is set, or if it does not fit the Plan.
Result<std::optional<state::FoundCheckpoint>> first_checkpoint(
    const plan::Plan& plan, const LaunchOptions& options, bool goes_on, int64_t below,
    const std::function<void(const std::string&)>& note);

}  // namespace tombolo::run
