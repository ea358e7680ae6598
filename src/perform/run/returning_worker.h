// A process that keeps a rank's worker as its child, and starts it again whenever the run gathers
// anew: where the worker ends with kComesAgain (worker_placement.h), or by a signal that nobody sent to this
// process. Where another process has the rank for good, it waits as a spare (spare.h): for that rank,
// or for another vacant one of its datacenter. It exits with 0 when the run is over.
//
// State of the process: one worker at a time, and signals that a person or a launcher sends are
// passed on to it.
//
// A host's address may change, as with DHCP or a VPN: where a worker listens is found again at each
// start, and what the host has no address for is waited for as a launcher is.
#pragma once

#include "base/result.h"
#include "perform/run/spare.h"
#include "perform/run/worker_placement.h"

namespace tombolo::run {

// From now on SIGTERM, SIGINT and SIGHUP end the worker, and it does not come again.
void pass_signals_to_worker();
bool asked_to_end();

// For how long the first worker calls a launcher that may have gone on with a run: that one opens
// its door when every lease of the launcher before is over.
inline SimDuration first_patience(const WorkerStart& start) {
  return start.join_max + start.terms.ceiling;
}
// Starts the worker and waits for its end: its wait status.
Result<int> run_worker(const WorkerStart& start, Processes& processes = system_processes());
// Whether a worker that ended like this is to be started again.
bool comes_again(int status);
// Starts it again for as long as it comes again; `status`: how it ended so far. How it ended at
// last.
Result<int> run_again(const WorkerStart& start, int status, Processes& processes, Threads& threads);

// The whole life of such a process: how its last worker ended, 0 where the run is over. `waiting`
// has how the rank is started, and how it waits where that is taken; its `seat` does not count.
// The launcher waits for lost ranks as often as `restarts` says, and so does a rank for it.
Result<int> return_in_seat(SpareOptions waiting, int64_t restarts, Processes& processes,
                           Threads& threads);
// And of a spare: it takes a seat that is free, and waits for the next where it has lost that one.
Result<int> return_as_spare(const SpareOptions& waiting, int64_t restarts, Processes& processes,
                            Threads& threads);

}  // namespace tombolo::run
