// How much of a processor a container, a job of Slurm or a service may use.
#pragma once

#include <string>

namespace tombolo {

// Cores that the control groups of this process allow, of version 2 (cpu.max) and of version 1
// (cpu.cfs_quota_us): the least of its own and those above it. Infinite where none limits it, or the
// system does not say. `root`: a folder in place of "/", for tests.
double cpu_limit(const std::string& root = "");

}  // namespace tombolo
