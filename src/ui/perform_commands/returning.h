// Ranks that come again: for runs whose ranks somebody started one by one, and which go on by
// themselves all the same (--restarts).
//
// This process keeps the rank's worker as a child, and starts it again whenever the run gathers
// anew, until the run is over. A spare is the same without a rank: it waits in the run's folder
// until a seat is vacant (launch/vacancy.h).
#pragma once

#include "base/result.h"
#include "perform/launch/launch_environment.h"
#include "ui/perform_commands/perform_commands.h"

namespace tombolo::perform_commands {

// Returns only what went wrong before there was a worker; ends the process as its worker ended.
Error return_as(const TrainOptions& options, const launch::LaunchedRank& launched);

// Returns when the run is over without it, or with what went wrong.
Status wait_as_spare(const TrainOptions& options);

}  // namespace tombolo::perform_commands
