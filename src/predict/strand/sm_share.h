// How many multiprocessors communication takes: more of them move bytes faster and compute slower.
//
// Kernels that communicate on a share s of a device's multiprocessors reach s / (s + 1/25) of their
// link: DeepEP's two figures, 643 GB/s with 24 of 132 and 726 with 64 (README of 2026), fix the
// constant. What computes meanwhile has 1 - s of the device, and is otherwise slowed as measured.
// An operator alone has the whole device, whatever the share. Copies take none.
#pragma once

#include "predict/strand/strand_pair.h"

namespace tombolo::strand {

// What NCCL and DeepEP take by default on an H100: 20 of 132.
inline constexpr double kSmShareDefault = 20.0 / 132;

// The pair as if communication took `to` of the multiprocessors, where it was measured with `from`.
StrandPair with_sm_share(const StrandPair& pair, double from, double to);

}  // namespace tombolo::strand
