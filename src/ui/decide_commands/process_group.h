// A process group that answers one command together, as started by mpirun.
//
// The program `tombolo` is one process and does not link MPI, so that it starts in milliseconds. If
// mpirun started several of it, `tombolo sweep` becomes its sibling `tombolo-mpi` (ui/cli/mpirun.h,
// sweep_mpi_main.cc), which implements ProcessGroup over MPI.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace tombolo::decide_commands {

class ProcessGroup {
 public:
  virtual ~ProcessGroup() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  // Rank 0's text, on every rank.
  virtual std::string broadcast(std::string text) = 0;
  // On rank 0 the texts of all ranks, in their order; elsewhere nothing.
  virtual std::vector<std::string> gather(std::string text) = 0;
};

}  // namespace tombolo::decide_commands
