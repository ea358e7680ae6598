// A process that keeps a rank's worker as its child, and starts it again whenever the run gathers
// again: if the worker exits with kComesAgain (worker_placement.h), or is killed by a signal that this process
// did not pass on. Where another process keeps the rank, it waits as a spare (spare.h): for that rank,
// or for another vacant one of its datacenter. It exits with 0 when the run has ended.
//
// State of the process: one worker at a time; signals from a person or a launcher are passed on to it.
//
// A host's address may change, as with DHCP or a VPN: the address to listen on is looked up again at
// each start. While the host has none it waits, for as long as it would wait for a launcher.
#pragma once

#include "base/result.h"
#include "perform/run/spare.h"
#include "perform/run/worker_placement.h"

namespace tombolo::run {

// From now on SIGTERM, SIGINT and SIGHUP end the worker, and it is not started again.
void pass_signals_to_worker();
bool asked_to_end();

// How long the first worker retries: a launcher that continues a run listens only after all leases
// of the previous launcher have expired.
inline SimDuration first_patience(const WorkerStart& start) {
  return start.join_max + start.terms.ceiling;
}
// Starts the worker and waits for its end: its wait status.
Result<int> run_worker(const WorkerStart& start, Processes& processes = system_processes());
// Whether a worker that ended like this is to be started again.
bool comes_again(int status);
// Starts the worker again for as long as comes_again(); `status`: how it ended so far. Returns the
// wait status of its last run.
Result<int> run_again(const WorkerStart& start, int status, Processes& processes, Threads& threads);

// The whole life of such a process. Returns how its last worker ended, 0 if the run has ended.
// `waiting` says how the rank is started, and how to wait if the rank is taken: then start.rank is
// preferred, whatever `waiting` prefers. The launcher waits for lost ranks `restarts` times, so a rank
// waits that often for the launcher.
Result<int> return_in_seat(SpareOptions waiting, int64_t restarts, Processes& processes,
                           Threads& threads);
// The same for a spare: it takes a vacant rank, and waits for the next one if it loses that.
Result<int> return_as_spare(const SpareOptions& waiting, int64_t restarts, Processes& processes,
                            Threads& threads);

}  // namespace tombolo::run
