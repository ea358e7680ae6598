// What an external launcher says to each process it starts: which rank it is, of how many.
//
//   torchrun   RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR, MASTER_PORT, with TORCHELASTIC_RUN_ID
//   Open MPI   OMPI_COMM_WORLD_RANK, OMPI_COMM_WORLD_SIZE, OMPI_COMM_WORLD_LOCAL_RANK
//   Slurm      SLURM_PROCID, SLURM_STEP_NUM_TASKS or SLURM_NTASKS, SLURM_LOCALID,
//              with SLURM_STEP_ID
//   by hand    RANK, WORLD_SIZE, and LOCAL_RANK, MASTER_ADDR, MASTER_PORT where wanted
//
// Launchers nest: torchrun inside srun or mpirun, mpirun inside a Slurm allocation. The innermost
// one counts, in the order of the table. Numbers set by hand must agree with Open MPI's or Slurm's,
// because one of the two is a mistake. An allocation is no launcher: a batch script runs once
// whatever SLURM_NTASKS says (it has no step), and so does a step of one task.
//
// torchrun may keep a store of its own at MASTER_PORT (TORCHELASTIC_USE_AGENT_STORE = True); then
// the rendezvous is at the next port.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "base/result.h"

namespace tombolo::join {

struct LaunchedRank {
  std::string launcher;  // "torchrun", "Open MPI", "Slurm", "RANK and WORLD_SIZE"
  int32_t rank = 0;
  int32_t ranks = 1;
  int32_t local_rank = 0;        // among those of this host; without a word on it, the rank
  std::string rendezvous_host;   // a name or an address; empty: not said
  uint16_t rendezvous_port = 0;  // 0: not said

  bool operator==(const LaunchedRank&) const = default;
};

using Environment = std::map<std::string, std::string, std::less<>>;
Environment environment_of_process();

// Nothing where no launcher is at work: then this process starts all ranks itself. Unusable where
// variables are missing, are no numbers or contradict each other; the message names them and their
// values.
Result<std::optional<LaunchedRank>> launched_rank(const Environment& environment);

}  // namespace tombolo::join
