// Where the workers of a Plan's ranks run on this machine.
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

// By rank. Unusable if the islands do not match the Plan: a node without a host, another
// byte_scale, or a WAN link that wants more connections than the transport makes.
Result<std::vector<WorkerPlacement>> worker_placements_of(
    const plan::Plan& plan, const std::optional<cluster::Islands>& islands);

// Unusable if a rank could not reach the host with this address: every rank talks to the launcher,
// and datacenters are connected by WAN links only.
Status check_reach(const plan::Plan& plan, const cluster::Islands& islands,
                   const std::string& launcher);

// Says so if the shards of a rank are on several nodes: one process then does not have the WAN links of all of them.
// Empty: nothing is left out.
std::string note_on_nodes(const plan::Plan& plan);

// The address of the emulated host in whose network namespace this process runs (the first host's
// unless another was chosen); loopback without islands. Unusable outside all of them.
Result<std::string> own_address(const std::optional<cluster::Islands>& islands);

// How a rank's worker is started: by the launcher for its own ranks, or by a process that mpirun,
// torchrun or srun started, which becomes the worker.
struct WorkerStart {
  std::string program;
  int32_t rank = 0;
  int32_t ranks = 1;
  transport::Address launcher;
  WorkerPlacement placement;
  // The listen address as a person specified it (listen_address.h). It is resolved again at each start,
  // because a host's address may change meanwhile. Left out: as `placement` says.
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
  bool returns = false;  // it is started again when the run gathers again
};

// Exit code of a worker that `returns` and wants to be started again.
inline constexpr int kComesAgain = 75;
// The same, from an epoch that never began: a spare then waits for any vacant rank again.
inline constexpr int kComesAgainFromGathering = 77;
// Exit code when another process keeps the rank: it may wait as a spare (spare.h) until it is free.
inline constexpr int kDisplaced = 76;

// Where it would listen now. Unusable where this host has no such address, or none at all.
Result<join::ListenAddress> address_now(const WorkerStart& start);

// The token goes into the environment, which only this user can read.
ChildOptions worker_child(const WorkerStart& start);

}  // namespace tombolo::run
