// `tombolo train` as one of several processes that mpirun, torchrun or srun started.
#pragma once

#include <optional>

#include "base/result.h"
#include "cli/commands.h"
#include "cluster/islands.h"
#include "plan/plan.h"
#include "runtime/launch_environment.h"
#include "runtime/launcher.h"
#include "runtime/worker_child.h"

namespace tombolo::cli {

// Which rank this process is; nothing where it starts all ranks itself. Of several processes with
// the same mistake in their environment the first complains first.
Result<std::optional<runtime::LaunchedRank>> find_launched_rank();

// Unusable where the launcher started more or fewer ranks than the Plan has.
Status check_size(const plan::Plan& plan, const runtime::LaunchedRank& launched);

Result<runtime::Rendezvous> rendezvous(const TrainOptions& options,
                                       const runtime::LaunchedRank& launched,
                                       const std::optional<cluster::Islands>& islands);

// Credentials as asked for, or what `tombolo init` made, where the ranks meet at another address
// than loopback. Those of a folder that is asked for must be there.
runtime::Security security_of(const TrainOptions& options, const runtime::LaunchedRank& launched,
                              const std::optional<cluster::Islands>& islands);

// All that can be known before the worker of a rank that is not 0 begins.
Result<runtime::WorkerStart> worker_start(const TrainOptions& options,
                                          const runtime::LaunchedRank& launched);

// Becomes the worker of a rank that is not 0. Returns only when that fails.
Error join_run(const TrainOptions& options, const runtime::LaunchedRank& launched);

}  // namespace tombolo::cli
