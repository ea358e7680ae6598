#include "perform/state/copy_on_write_state.h"

#include <algorithm>
#include <cstring>
#include <new>

namespace tombolo::state {

CopyOnWriteState::CopyOnWriteState(std::vector<kernels::TensorView> tensors, Threads& threads)
    : threads_(threads),
      tensors_(std::move(tensors)),
      piece_(std::min(static_cast<size_t>(kernels::bytes_of(tensors_)), kPiece)),
      read_(threads.signal()),
      copies_(tensors_.size()),
      exposed_(kernels::bytes_of(tensors_)) {
  for (const kernels::TensorView& each : tensors_) unread_.push_back(each.bytes);
}

std::vector<TensorShape> CopyOnWriteState::shapes() const {
  std::vector<TensorShape> out;
  for (const kernels::TensorView& each : tensors_)
    out.push_back({each.name, each.dtype, each.shape});
  return out;
}

std::span<const std::byte> CopyOnWriteState::next() {
  std::lock_guard lock(mutex_);
  size_t filled = 0;
  while (at_ < unread_.size() && filled < piece_.size()) {
    std::span<const std::byte>& rest = unread_[at_];
    const size_t taken = std::min(rest.size(), piece_.size() - filled);
    if (taken > 0) std::memcpy(piece_.data() + filled, rest.data(), taken);
    filled += taken;
    rest = rest.subspan(taken);
    if (copies_[at_].empty()) exposed_ -= static_cast<int64_t>(taken);
    if (!rest.empty()) break;
    kernels::Payload().swap(copies_[at_++]);
  }
  if (exposed_ == 0) read_->notify_all();
  return std::span(piece_).first(filled);
}

void CopyOnWriteState::close() {
  std::lock_guard lock(mutex_);
  for (; at_ < unread_.size(); ++at_) kernels::Payload().swap(copies_[at_]);
  exposed_ = 0;
  read_->notify_all();
}

int64_t CopyOnWriteState::exposed() const {
  std::lock_guard lock(mutex_);
  return exposed_;
}

bool CopyOnWriteState::copy() {
  std::lock_guard lock(mutex_);
  try {
    for (size_t i = at_; i < unread_.size(); ++i) {
      if (!copies_[i].empty()) continue;
      copies_[i].assign(unread_[i].begin(), unread_[i].end());
      exposed_ -= static_cast<int64_t>(unread_[i].size());
      unread_[i] = copies_[i];
    }
  } catch (const std::bad_alloc&) {
    return false;
  }
  return true;
}

void CopyOnWriteState::await_read() {
  std::unique_lock lock(mutex_);
  threads_.await(*read_, lock, kNever, [&] { return exposed_ == 0; });
}

}  // namespace tombolo::state
