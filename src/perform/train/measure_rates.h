// A short measurement of the device that this process computes on: products, memory, layers.
#pragma once

#include <functional>

#include "base/result.h"
#include "spec/plan/device_rates.h"

namespace tombolo::train {

struct RatesOptions {
  int64_t threads = 1;
  Seconds budget = 5_s;  // about; every figure is looked at three times whatever it says
  // Hidden sizes of the layers, each with heads of 32 to 64 numbers and an MLP of 11/4 of that.
  std::vector<int64_t> hidden = {256, 512, 1024};
  int64_t sequence = 256;
  int64_t rows = 1024;          // tokens of a microbatch; a multiple of `sequence`
  Bytes stream_array = 128_MB;  // of each of three, at least; more where the caches are larger
};

// By `now`, which may be any time that passes while this process computes. The layers are those
// that training runs (stage_module.h), forward and backward. Unusable: the slow netlib BLAS. CHECKs
// the options.
Result<plan::DeviceRates> measure_rates(const RatesOptions& options,
                                        const std::function<Seconds()>& now);

}  // namespace tombolo::train
