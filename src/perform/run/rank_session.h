// A rank's life under a launcher: say hello, get the Plan, load kernels, link to the neighbours,
// wait for all, perform, report.
//
// Two threads: the caller's performs; a second one listens to the launcher and sends it heartbeats,
// over an Endpoint of its own. The Endpoint to the other ranks is made later, because it carries the
// epoch. When the launcher says stop, goes away or is silent until the lease expires (control/lease.h), both
// Endpoints are aborted, and whatever the first thread waits for fails.
// Where the run will restart automatically, the rank leaves its state behind (state_snapshot.h).
#pragma once

#include <unistd.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "perform/control/lease.h"
#include "perform/join/listen_address.h"
#include "perform/join/security.h"
#include "perform/kernels/kernels.h"
#include "perform/link/handshake.h"
#include "perform/stage/filler.h"
#include "perform/state/memory_budget.h"
#include "perform/transport/address.h"
#include "perform/transport/endpoint.h"
#include "spec/plan/plan.h"

namespace tombolo::run {

// What makes a rank's kernels once the Plan is known. May take long; runs on the performing thread.
using KernelsFactory =
    std::function<Result<std::unique_ptr<kernels::Kernels>>(const plan::Plan& plan, int32_t rank)>;

// Makes what a rank does while it waits; null: nothing. Called on the performing thread once the
// Plan is known. `filling.windows`, which is told of the rank's computations, says when it may run.
// The endpoint outlives it, and has links to the neighbours and `filling_peers` when it first fills.
using FillerFactory = std::function<Result<std::unique_ptr<stage::Filler>>(
    int32_t rank, transport::Endpoint& endpoint)>;

struct RankSessionOptions {
  int32_t rank = 0;
  int32_t ranks = 1;  // of the Plan; the launcher is one more
  transport::Address launcher;
  // Where it listens, and where the other ranks reach it: HOST or HOST:PORT (a router that forwards a port).
  join::ListenAddress at{.listen = "127.0.0.1"};
  std::string network;  // of the emulated islands this rank is in (cluster/islands.h); empty: none
  join::Security security;
  link::Token token;
  std::string token_file;  // if not empty, holds the token (rendezvous.h); it may be yet to come
  // Where this host keeps the rank's files; both empty: where the launcher says. With `output` alone
  // the rank refuses a run that takes checkpoints: the launcher may not choose a folder here.
  std::string output;
  std::string checkpoints;
  std::string job;  // what this host's own job says (job_terms.h); empty: it has none
  SimDuration join_max{60'000'000'000};  // a busy machine starts slowly
  control::LeaseTerms terms;             // until the launcher grants a lease, and its beats
  // The process that started this rank starts it again when the run gathers again. So while the
  // launcher still knows the previous process, this one retries; where that lasts longer than a
  // lease, another process has the rank, and this one ends as displaced.
  bool returns = false;
  // Ends the process when the first thread is still busy this long after a stop and after its state
  // was left; zero: never. A rank that returns then exits with kComesAgain (worker_placement.h).
  SimDuration stuck_max;
  bool realtime = true;  // emulated devices ask the machine for precise sleeps
  std::function<void(int code)> end_process = _exit;
  std::function<std::optional<int64_t>()> memory_available = [] {
    return state::memory_available();
  };
  FillerFactory make_filler;  // left out: nothing
  stage::FillingMessenger::Options filling;
  std::vector<int32_t> filling_peers;  // whom the filler talks to; they name this rank, too
  transport::Sockets* sockets = &transport::system_sockets();
  std::function<void(const std::string&)> log;  // one line, from any thread
  // Called when this rank has received the Plan and is to keep its state: from now on it notices
  // itself that the launcher is gone, and leaves its state before it exits.
  std::function<void()> on_joined;
};

struct RankEnd {
  Status status;
  bool told = false;       // the launcher reports it to people, so this process need not
  bool again = false;      // it was part of the run, which resumes with the ranks that return
  bool began = false;      // all ranks had connected, and this one received Start
  bool displaced = false;  // another process has its rank for longer than a dead one's lease lasts
  // Of the process; `returns` as in its options.
  int exit_code(bool returns) const;
};

// Returns when all steps are done, or with the reason why not. If another rank or the launcher was
// at fault the error is kLostPeer and names it.
RankEnd serve_rank(const RankSessionOptions& options, const KernelsFactory& make_kernels,
                   Threads& threads);

}  // namespace tombolo::run
