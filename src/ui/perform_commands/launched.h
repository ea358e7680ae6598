// `tombolo train` as one of several processes that mpirun, torchrun or srun started.
#pragma once

#include <optional>

#include "base/result.h"
#include "perform/join/launch_environment.h"
#include "perform/run/launcher.h"
#include "perform/run/worker_placement.h"
#include "spec/cluster/islands.h"
#include "spec/plan/plan.h"
#include "ui/perform_commands/perform_commands.h"

namespace tombolo::perform_commands {

// Which rank this process is; nothing where it starts all ranks itself. Of several processes with
// the same mistake in their environment the first complains first.
Result<std::optional<join::LaunchedRank>> find_launched_rank();

// Unusable where the launcher started more or fewer ranks than the Plan has.
Status check_size(const plan::Plan& plan, const join::LaunchedRank& launched);

Result<run::Rendezvous> rendezvous(const TrainOptions& options, const join::LaunchedRank& launched,
                                   const std::optional<cluster::Islands>& islands);

// Credentials as asked for, or what `tombolo init` made, where the ranks meet at another address
// than loopback. Those of a folder that is asked for must be there.
join::Security security_of(const TrainOptions& options, const join::LaunchedRank& launched,
                           const std::optional<cluster::Islands>& islands);

// Of --lease and --grace.
Result<control::LeaseTerms> terms_of(const TrainOptions& options);

// All that can be known before the worker of a rank that is not 0 begins.
Result<run::WorkerStart> worker_start(const TrainOptions& options,
                                      const join::LaunchedRank& launched);

// Becomes the worker of a rank that is not 0. Returns only when that fails.
Error join_run(const TrainOptions& options, const join::LaunchedRank& launched);

// Ranks that come again: for runs whose ranks somebody started one by one, and which go on by
// themselves all the same (--restarts).
//
// This process keeps the rank's worker as a child, and starts it again whenever the run gathers
// anew, until the run is over. A spare is the same without a rank: it waits at the launcher's
// door until a seat is vacant (run/spare.h).
//
// Returns only what went wrong before there was a worker; ends the process as its worker ended.
Error return_as(const TrainOptions& options, const join::LaunchedRank& launched);

// Returns when the run is over without it, or with what went wrong.
Status wait_as_spare(const TrainOptions& options);

}  // namespace tombolo::perform_commands
