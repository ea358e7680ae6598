// What differs between LibTorch 1.13 (Debian 12) and PyTorch 2.x (Debian 13 has 2.6), and the headers
// that train/ needs.
//
// Debian's build includes glog, whose CHECK(condition) takes the place of ours; this header gives
// it back.
//
// torch/torch.h takes twice as long to compile (11 s against 5 s) and twice the memory (1.1 GB).
#pragma once

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/autograd/variable.h>
#include <torch/version.h>

#include <optional>
#include <utility>

#include "base/check.h"

#undef CHECK
#define CHECK TOMBOLO_CHECK

namespace tombolo::train::compat {

// 1.13 has c10::optional of its own, 2.x uses the standard's.
#if TORCH_VERSION_MAJOR >= 2
template <class T>
using Optional = std::optional<T>;
#else
template <class T>
using Optional = c10::optional<T>;
#endif

// A std::shared_ptr, and c10's intrusive_ptr by 2.14.
using GradAccumulator =
    decltype(torch::autograd::impl::grad_accumulator(std::declval<const at::Tensor&>()));

// Process-wide. The pool of inter-operator threads can be sized once only, hence the static.
inline void use_threads(int threads) {
  at::set_num_threads(threads);
  static const bool sized = [] {
    if (at::get_num_interop_threads() != 1) at::set_num_interop_threads(1);
    return true;
  }();
  (void)sized;
}

}  // namespace tombolo::train::compat
