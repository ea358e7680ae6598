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

// Which rank this process is; nothing if it starts all ranks itself. If several processes have the
// same mistake in their environment, the first one reports it first.
Result<std::optional<join::LaunchedRank>> find_launched_rank();

// Unusable where the launcher started more or fewer ranks than the Plan has.
Status check_size(const plan::Plan& plan, const join::LaunchedRank& launched);

Result<run::Rendezvous> rendezvous(const TrainOptions& options, const join::LaunchedRank& launched,
                                   const std::optional<cluster::Islands>& islands);

// Credentials as requested, or those that `tombolo init` made if the ranks meet at another address
// than loopback. A folder that is requested must exist.
join::Security security_of(const TrainOptions& options, const join::LaunchedRank& launched,
                           const std::optional<cluster::Islands>& islands);

// From --lease and --grace.
Result<control::LeaseTerms> terms_of(const TrainOptions& options);

// The settings of a worker of a rank other than 0, as far as they are known before it starts.
Result<run::WorkerStart> worker_start(const TrainOptions& options,
                                      const join::LaunchedRank& launched);

// Becomes the worker of a rank other than 0. Returns only if that fails.
Error join_run(const TrainOptions& options, const join::LaunchedRank& launched);

// Ranks that rejoin: for runs whose ranks were started one by one by an external launcher, and that
// still resume automatically (--restarts).
//
// This process keeps the rank's worker as a child, and restarts it whenever the run gathers again,
// until the run ends. A spare does the same without a rank: it waits at the launcher until one is
// vacant (run/spare.h).
//
// Returns only errors from before there was a worker; else ends this process as its worker ended.
Error return_as(const TrainOptions& options, const join::LaunchedRank& launched);

// Returns when the run has ended without it, or with an error.
Status wait_as_spare(const TrainOptions& options);

}  // namespace tombolo::perform_commands
