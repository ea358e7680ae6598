// A rank's state while a thread writes it to a file from where it lies.
//
// That thread reads it once, from front to back. The performing thread continues meanwhile, because
// passes do not write to the state. An update does, so what is unread by then is copied first, or
// the update waits until all is read. Either way the thread reads the state as it was lent.
//
// Memory: a piece of 4 MiB, and copies of what was unread at an update, each until it is read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "base/clock.h"
#include "perform/kernels/kernels.h"
#include "perform/state/safetensors.h"

namespace tombolo::state {

class CopyOnWriteState {
 public:
  CopyOnWriteState(std::vector<kernels::TensorView> tensors, Threads& threads);

  // --- the reading thread ---
  // All tensors, in the order in which their bytes come.
  std::vector<TensorShape> shapes() const;
  // The next bytes, of one tensor or several; valid until the next call. Empty: that was all.
  std::span<const std::byte> next();
  // The reading thread reads no more.
  void close();

  // --- the performing thread ---
  // Bytes that are neither read nor copied: while there are any, no thread may change the state.
  int64_t exposed() const;
  // Copies what is exposed. False if there is no memory for the copies.
  bool copy();
  // Waits until nothing is exposed.
  void await_read();

 private:
  static constexpr size_t kPiece = size_t{4} << 20;

  Threads& threads_;
  const std::vector<kernels::TensorView> tensors_;
  std::vector<std::byte> piece_;  // the reading thread's

  mutable std::mutex mutex_;  // of all below; held while bytes are copied
  const std::unique_ptr<Signal> read_;
  std::vector<std::span<const std::byte>> unread_;  // by tensor: of it, or of its copy
  std::vector<kernels::Payload> copies_;            // by tensor
  size_t at_ = 0;                                   // the first tensor that is not read
  int64_t exposed_ = 0;
};

}  // namespace tombolo::state
