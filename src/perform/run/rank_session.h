// A rank's life under a launcher: say hello, get the Plan, load kernels, link to the neighbours,
// wait for all, perform, report.
//
// Two threads: the caller's performs; a second one listens to the launcher and tells it that this
// rank is alive, over an Endpoint of its own: the other one carries the epoch, and is made when
// that is known. When the launcher says stop, goes away or is silent until the lease is over
// (control/lease.h), both Endpoints are aborted, and whatever the first thread waits for fails.
// Where the run will go on without a person, the rank leaves its state behind (state_snapshot.h).
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

// What a rank does while it waits; null: nothing. After the Plan is known, on the performing thread.
// When it may is `filling.windows`, which hears of the rank's computations. The endpoint outlives it,
// and has links to the neighbours and the `filling_peers` when it first fills.
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
  // the rank takes part in no run that takes checkpoints: nobody else chooses a folder here.
  std::string output;
  std::string checkpoints;
  std::string job;  // what this host's own job says (job_terms.h); empty: it has none
  SimDuration join_max{60'000'000'000};  // a busy machine starts slowly
  control::LeaseTerms terms;             // until the launcher grants a lease, and its beats
  // Whoever started this rank starts it again when the run gathers anew. So while the launcher
  // still knows the process before, it asks again; where that lasts longer than a lease, the seat
  // is somebody else's, and it ends as displaced.
  bool returns = false;
  // Ends the process when the first thread is still busy so long after a stop and after its state
  // was left; zero: never. A rank that returns then ends with kComesAgain (worker_placement.h).
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
  // From now on this rank notices the launcher's end by itself, and has something to leave.
  std::function<void()> on_joined;
};

struct RankEnd {
  Status status;
  bool told = false;       // people hear of it from the launcher; nobody needs to repeat it
  bool again = false;      // it was part of the run, which goes on with all who come again
  bool began = false;      // all had come, and it was told with what they begin
  bool displaced = false;  // another process has its seat, and no lease of a dead one lasts so long
  // Of the process; `returns` as in its options.
  int exit_code(bool returns) const;
};

// Returns when all steps are done, or with the reason why not. Where another rank or the launcher
// was at fault the error is kLostPeer and names it.
RankEnd serve_rank(const RankSessionOptions& options, const KernelsFactory& make_kernels,
                   Threads& threads);

}  // namespace tombolo::run
