// With how many threads a rank computes.
//
// Two threads of a rank whose neighbours keep the cores busy are slower than one, so the number of
// cores alone does not decide. If a job leaves the choice to the rank, it measures a product of its
// own model's size while the other ranks of the host do the same.
#pragma once

#include <cstdint>
#include <functional>

#include "spec/plan/plan.h"

namespace tombolo::train {

// Of 1, 2, 4 and so on up to `most`, and `most` itself: the smallest number of threads such that no
// other is more than a quarter faster. `seconds` measures a number of threads.
int64_t choose_threads(int64_t most, const std::function<double(int64_t threads)>& seconds);

// Of each shard of the rank. As [run].threads says: left out 1, and 0 as the measurement says, up to a share of the cores that
// this process may use. Some tenths of a second where it measures. Process-wide: sets them, too.
int64_t use_threads(const plan::Plan& plan, int32_t rank);

// Sets this many, whatever a Plan says. Process-wide. Products in fp32 use OpenBLAS, in bf16 oneDNN, which
// computes with LibTorch's threads.
void set_threads(int64_t threads, plan::Precision precision = plan::Precision::kFp32);

}  // namespace tombolo::train
