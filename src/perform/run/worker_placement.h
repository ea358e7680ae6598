// Where the ranks of a Plan lie on this machine.
//
// Without islands all ranks share this host and its loopback. In emulated islands each node of the
// Plan is a host with a network namespace and an address (cluster/islands.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/time.h"
#include "perform/control/lease.h"
#include "perform/join/listen_address.h"
#include "perform/join/security.h"
#include "perform/link/handshake.h"
#include "perform/run/child_process.h"
#include "perform/transport/address.h"
#include "spec/cluster/islands.h"
#include "spec/plan/plan.h"

namespace tombolo::run {

struct WorkerPlacement {
  join::ListenAddress at = {.listen = "127.0.0.1"};  // of its worker
  std::string network_namespace = {};  // a path for setns(); empty: that of this process
};

// By rank. Unusable where the islands are not those of the Plan: a node that is no host, another
// byte_scale, or a WAN link that wants more connections than the transport makes.
Result<std::vector<WorkerPlacement>> worker_placements_of(
    const plan::Plan& plan, const std::optional<cluster::Islands>& islands);

// Unusable where a rank could not reach the host with this address: every rank talks to the
// launcher, and between datacenters there is nothing but WAN links.
Status check_reach(const plan::Plan& plan, const cluster::Islands& islands,
                   const std::string& launcher);

// That shards of a rank lie on several nodes, whose lines between datacenters one process does not have all; empty:
// nothing is left out.
std::string note_on_nodes(const plan::Plan& plan);

// The address of the host in whose namespace this process runs: loopback without islands, the first
// host's unless somebody went elsewhere. Unusable outside of all of them.
Result<std::string> own_address(const std::optional<cluster::Islands>& islands);

// How a rank's worker is started, whoever does it: the launcher for its own ranks, or a process
// that mpirun, torchrun or srun started, which becomes the worker.
struct WorkerStart {
  std::string program;
  int32_t rank = 0;
  int32_t ranks = 1;
  transport::Address launcher;
  WorkerPlacement placement;
  // As a person asked for it (listen_address.h). Where it listens follows from it at each start, because
  // a host's address may change meanwhile. Left out: as `placement` says.
  std::optional<join::ListenAddress> wanted;
  join::Security security;
  std::optional<link::Token> token;  // left out: it reads token_file
  std::string token_file;
  // Where its host keeps its files; empty: where the launcher says.
  std::string output;
  std::string checkpoints;
  std::string job;  // what its host's own job says (job_terms.h); empty: it has none
  SimDuration join_max{60'000'000'000};
  control::LeaseTerms terms;
  bool child = true;     // it may end when the thread that started it does
  bool returns = false;  // it is started again when the run gathers anew
};

// With which a worker that returns ends when it wants to be started again.
inline constexpr int kComesAgain = 75;
// The same, from an epoch that never began: a spare in that seat is of more use at the door.
inline constexpr int kComesAgainFromGathering = 77;
// And when another process has its seat for good: it may wait as a spare (spare.h) until it is free.
inline constexpr int kDisplaced = 76;

// Where it would listen now. Unusable where this host has no such address, or none at all.
Result<join::ListenAddress> address_now(const WorkerStart& start);

// The token goes into the environment, which only this user can read.
ChildOptions worker_child(const WorkerStart& start);

}  // namespace tombolo::run
