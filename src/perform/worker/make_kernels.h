// Makes the Kernels of a rank: emulated ones, or LibTorch's if this program was built with it.
#pragma once

#include <memory>

#include "base/clock.h"
#include "base/value.h"
#include "perform/kernels/kernels.h"
#include "spec/plan/plan.h"

namespace tombolo::worker {

// By the kind of the rank's device. Unusable for "cpu" without LibTorch, and for devices that can
// only be predicted.
Result<std::unique_ptr<kernels::Kernels>> make_kernels(const plan::Plan& plan, int32_t rank,
                                                       Clock& clock);

// The libraries that this program computes with: "libtorch", "blas" (its file) and "blas_problem";
// empty without LibTorch.
Value::Table kernel_facts();

}  // namespace tombolo::worker
