// Which Kernels a rank gets: emulated ones, or LibTorch's where this program was built with it.
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

// With what this program computes: "libtorch", "blas" (its file) and "blas_problem"; empty without.
Value::Table kernel_facts();

}  // namespace tombolo::worker
