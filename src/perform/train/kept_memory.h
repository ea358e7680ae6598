// Memory that training frees stays with the process, in pages as large as the kernel has.
//
// An iteration asks for the same tensors again and again. glibc gives large blocks back to the
// kernel as soon as they are freed, so each comes back as pages of 4 KiB that fault and are zeroed
// one by one: 50,000 faults and a tenth of an iteration (docs/results/training.md).
#pragma once

#include "base/units.h"

namespace tombolo::train {

// Process-wide. `expected` is address space to reserve, not memory: too much does no harm, as at
// most half as much is reserved as the machine has memory. If that fails nothing is reserved. Does
// nothing with another libc than glibc.
void keep_freed_memory(Bytes expected);

}  // namespace tombolo::train
