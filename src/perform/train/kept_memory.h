// Memory that training frees stays with the process, in pages as large as the kernel has.
//
// An iteration asks for the same tensors again and again. glibc gives large blocks back to the
// kernel as soon as they are freed, so each comes back as pages of 4 KiB that fault and are zeroed
// one by one: 50,000 faults and a tenth of an iteration (docs/results/training.md).
#pragma once

#include "base/units.h"

namespace tombolo::train {

// Process-wide. `expected` is address space to reserve, not memory: more is fine up to half of the
// machine's, of which it never takes more. Where it cannot be had nothing is reserved. Nothing
// happens with another libc than glibc.
void keep_freed_memory(Bytes expected);

}  // namespace tombolo::train
