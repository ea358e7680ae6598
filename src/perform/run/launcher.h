// The launcher: performs a Plan with one worker process per rank on this host.
//
// It starts the workers (with a rendezvous only that of rank 0: an external launcher starts the
// others, see rendezvous.h), introduces them to each other, gathers their reports, commits a
// checkpoint once all its shards are written, and merges the Trace. All control goes through it: a
// rank that has trouble tells the launcher; the launcher notices a rank that dies (as its parent, or
// by the connection) and tells all others why they stop. Workers exit when the launcher does.
//
// A run that loses a worker restarts automatically, as often as `restarts` allows: the coordinator
// (membership.h) counts losses and decides, the launcher carries out. All workers are stopped and
// started again under a new token and a new epoch (control/coordinator.h), so that nothing of the
// lost epoch can be mistaken for the new one, and no rank works before all are connected. They
// resume from the newest step that all stages can supply: from what survivors kept
// (state_snapshot.h), one iteration back at most where every stage has a replica left, else from the
// newest checkpoint. The loss values are those of an undisturbed run, because a state holds all that
// they follow from. A worker that is silent until its lease expires counts as lost, too.
//
// When the launcher is killed its workers notice, keep their states and exit. The next launcher with
// the same Plan in the same folder finds the journal (membership.h) and resumes the run.
//
// The job's token is passed in the environment, which only this user can read.
// docs/decisions/0006-launcher-and-control.md.
#pragma once

#include <atomic>
#include <functional>
#include <optional>
#include <string>

#include "base/clock.h"
#include "perform/control/lease.h"
#include "perform/join/listen_address.h"
#include "perform/join/rendezvous.h"
#include "perform/join/security.h"
#include "perform/observe/progress_tracker.h"
#include "perform/observe/telemetry.h"
#include "perform/run/child_process.h"
#include "perform/run/workers.h"
#include "perform/transport/endpoint.h"
#include "spec/plan/plan.h"
#include "steer/tune/batch_controller.h"

namespace tombolo::run {

// Ranks that an external launcher starts.
struct Rendezvous {
  transport::Address at;                 // where the other ranks reach the coordinator
  join::ListenAddress listen = {};       // where that is on this host; left out: the same
  std::optional<link::Token> token;      // left out: drawn, and left in a file for the others
  SimDuration join_max{60'000'000'000};  // for all ranks to connect
};

struct LaunchOptions {
  std::string output = ".";  // folder for trace.jsonl; created where it is missing
  bool resume = false;       // continue after the latest checkpoint
  // How many restarts after losses are allowed in a row without a new step in between, as the
  // coordinator counts them (control/coordinator.h); 0: neither journal nor kept states.
  int restarts = 0;
  control::LeaseTerms terms;            // of its workers; the ceiling is the grace
  SimDuration end_max{20'000'000'000};  // for workers to end when all is done; then one is lost
  // Workers copy their state at every iteration, so that a restart repeats one iteration at most.
  // Left out: only if there are replicas, because then a replica still has a lost worker's state.
  std::optional<bool> keep_state;
  // Iterations of which the median decides how the batch is divided, where the Plan lets a run change that.
  int64_t batch_window = tune::BatchController::Options{}.window;
  bool all_ended = false;      // no worker of an earlier launcher lives, so none is waited for
  std::string worker_program;  // empty: tombolo-worker in the running program's folder
  uint16_t control_port = 0;   // of this host; 0: any that is free; without a rendezvous
  std::optional<Rendezvous> rendezvous;     // left out: all ranks are started here
  std::optional<cluster::Islands> islands;  // that this process runs in
  std::string advertise;                    // where others reach the ranks that it starts
  bool no_inbound = false;                  // its ranks cannot be called (dialling.h)
  join::Security security;                  // of all connections
  std::string command;                      // for the Trace's header
  std::string version;
  // Called once, on the calling thread, when all is checked and the port is bound, before any
  // process is started. Files of an earlier run in `output` are replaced only from here on.
  std::function<Status()> on_begin;
  std::function<void(const observe::Progress&)> on_progress;  // on the calling thread
  std::function<void(const std::string&)> log;                // a line for people; any thread
  std::function<void(int32_t rank, int64_t pid)> on_start;    // a worker said hello; calling thread
  std::function<void(const std::string&)> on_note;  // what people should know; calling thread
  observe::Telemetry* telemetry = nullptr;          // receives all events, for status and metrics
  const std::atomic<bool>* stop = nullptr;          // set: stop in order (stop_signals.h)
  transport::Sockets* sockets = &transport::system_sockets();
  Processes* processes = &system_processes();
  OpenSplice open_splice = open_system_splice;
};

// Blocks until the run has ended; no worker that it started outlives it. Errors: unusable (taken
// port, missing worker program, a device that cannot run here, a checkpoint that does not fit, two
// processes with one rank), kLostPeer (naming the rank and how it died, or that it did not connect),
// or what a rank reported. Restarts need ranks that had all been ready once; the Trace then begins
// after the last checkpoint that the run resumed from. Ranks that an external launcher started
// reconnect on their own (`returns`, rank_session.h), or a spare takes over their rank (spare.h).
Result<observe::RunSummary> launch(const plan::Plan& plan, const LaunchOptions& options,
                                   Threads& threads);

// --lease and --grace: the shortest lease, and the longest silence that is tolerated, of ranks and
// of broken connections alike. No lease given: as long as the grace. Unusable outside 1 s to an
// hour, or if the lease is longer than the grace.
Result<control::LeaseTerms> lease_terms(std::optional<Seconds> lease, Seconds grace);

// What this version cannot perform, refused by name.
Status check_performable(const plan::Plan& plan);

}  // namespace tombolo::run
