// How a rank's worker is started, whoever does it: the launcher for its own ranks, or a process
// that mpirun, torchrun or srun started, which becomes the worker.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/time.h"
#include "perform/launch/berths.h"
#include "perform/launch/child_process.h"
#include "perform/launch/security.h"
#include "perform/link/handshake.h"
#include "perform/transport/address.h"

namespace tombolo::launch {

struct WorkerStart {
  std::string program;
  int32_t rank = 0;
  int32_t ranks = 1;
  transport::Address launcher;
  Berth berth;
  Security security;
  std::optional<link::Token> token;  // left out: it reads token_file
  std::string token_file;
  SimDuration join_max{60'000'000'000};
  bool child = true;     // it may end when the thread that started it does
  bool returns = false;  // it is started again when the run gathers anew
};

// With which a worker that returns ends when it wants to be started again.
inline constexpr int kComesAgain = 75;

// The token goes into the environment, which only this user can read.
ChildOptions worker_child(const WorkerStart& start);

}  // namespace tombolo::launch
