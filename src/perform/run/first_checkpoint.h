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

// The newest that can be read, if there is one, from before the step `below`. `goes_on`: with a run that was
// cut short. `note`: what to say of those that cannot be read. Reads only. Unusable where --resume finds none, where
// one is there that no run resumes, and where it does not fit the Plan.
Result<std::optional<state::FoundCheckpoint>> first_checkpoint(
    const plan::Plan& plan, const LaunchOptions& options, bool goes_on, int64_t below,
    const std::function<void(const std::string&)>& note);

}  // namespace tombolo::run
