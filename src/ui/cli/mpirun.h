// Where mpirun started several processes of `tombolo sweep`: each becomes one of `tombolo-mpi` (decide_commands/crew.h).
#pragma once

#include "base/result.h"

namespace tombolo {

// Whether mpirun started several of this process.
bool mpirun_started_several();

// Becomes `tombolo-mpi` with the same arguments. Returns only when that fails; of all ranks the
// first says why.
Error become_crew(char** argv);

}  // namespace tombolo
