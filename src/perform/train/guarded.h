// LibTorch throws; nothing that this module exports does.
#pragma once

#include <exception>
#include <new>
#include <utility>

#include "base/result.h"
#include "perform/train/torch_compat.h"

namespace tombolo::train {

// Ends a computation from the inside, through code that cannot return a Result: LibTorch's, or
// ours.
struct Interrupted : std::exception {
  explicit Interrupted(Error error_in) : error(std::move(error_in)) {}
  const char* what() const noexcept override { return error.message.c_str(); }
  Error error;
};

// `doing`: "computing a forward pass".
template <class Function>
auto guarded(const char* doing, Function function) -> decltype(function()) {
  try {
    return function();
  } catch (const std::bad_alloc&) {
    return infeasible(fmt::format("out of memory while {}", doing),
                      "a smaller training.micro_batch, or recompute = \"full\"");
  } catch (const Interrupted& interrupted) {
    return fail(interrupted.error);
  } catch (const c10::Error& error) {
    return failed(fmt::format("LibTorch, while {}: {}", doing, error.what_without_backtrace()));
  } catch (const std::exception& error) {
    return failed(fmt::format("while {}: {}", doing, error.what()));
  }
}

}  // namespace tombolo::train
