#include "perform/run/first_checkpoint.h"

#include <algorithm>

namespace tombolo::run {

bool takes_checkpoints(const plan::Plan& plan) {
  return plan.checkpoint && plan.checkpoint->every > 0;
}

Result<std::optional<state::FoundCheckpoint>> first_checkpoint(
    const plan::Plan& plan, const LaunchOptions& options, bool goes_on, int64_t below,
    const std::function<void(const std::string&)>& note) {
  if (options.resume && !plan.checkpoint) {
    return unusable("there is nothing to resume from: the job has no [checkpoint]",
                    "[checkpoint] with directory = \"checkpoints\" and every = 10");
  }
  if (!takes_checkpoints(plan) && !options.resume) return std::nullopt;
  const std::string& directory = plan.checkpoint->directory;
  // A run that lost a rank close to its end still has its last steps to do, so it does not begin
  // with the checkpoint of the last step.
  const auto found = TRY(state::latest_readable_checkpoint(
      directory, std::min(below, goes_on ? plan.run.steps : INT64_MAX),
      [&](const Error& damage, const std::string& instead) {
        if (note) note(state::going_on_from(damage, instead));
      }));
  // If ranks are on other hosts, those may have one (checkpoint_coordinator.h).
  if (options.resume && !goes_on && !found && !options.rendezvous) {
    return unusable(fmt::format("{}: there is no checkpoint to resume from", directory),
                    "starting from the beginning, without --resume");
  }
  if (!options.resume && !goes_on && found) {
    return unusable(fmt::format("{}: an earlier run left a checkpoint of step {} here", directory,
                                found->manifest.step),
                    "--resume to continue from it, or removing the folder to begin again");
  }
  if (found) TRY(state::check_fits(*found, plan));
  return found;
}

}  // namespace tombolo::run
