// The interface of Kernels for pairs: a forward of one microbatch co-executed with a backward of
// another, so that the communication of one hides behind the computation of the other.
//
// Kernels without it are not asked to perform a Plan with pairs.
#pragma once

#include <functional>

#include "perform/kernels/kernels.h"

namespace tombolo::kernels {

// Both of stages of this rank; what comes in and goes out is as in Kernels.
struct PairOfPasses {
  int32_t forward_stage = 0;
  int64_t forward_microbatch = 0;
  Payload input;
  int32_t backward_stage = 0;
  int64_t backward_microbatch = 0;
  Payload output_gradient;
};

// Called once each, on the calling thread, as soon as a side has its result and not when both have,
// because another stage waits for it. The forward's first if both are there at once.
struct PairResults {
  std::function<Status(Payload output)> forward;
  std::function<Status(Payload gradient)> backward;
};

class PairKernels {
 public:
  virtual ~PairKernels() = default;

  // Leaves what Kernels::forward and Kernels::backward leave. Fails as they do, or as a result does.
  virtual Status co_execute(PairOfPasses passes, const PairResults& results) = 0;
};

}  // namespace tombolo::kernels
