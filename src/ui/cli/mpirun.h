// Where mpirun started several processes of `tombolo sweep`: each becomes one of `tombolo-mpi` (decide_commands/process_group.h).
#pragma once

#include "base/result.h"

namespace tombolo {

// Whether mpirun started several of this process.
bool mpirun_started_several();

// Becomes `tombolo-mpi` with the same arguments. Returns only if that fails; rank 0 returns first, so
// that it reports the error.
Error join_process_group(char** argv);

}  // namespace tombolo
