// Adds what passes until the end of the scope to a time; null: to none.
#pragma once

#include <chrono>

namespace tombolo::train {

class AddTime {
 public:
  explicit AddTime(std::chrono::nanoseconds* to) : to_(to) {}
  ~AddTime() {
    if (to_) *to_ += std::chrono::steady_clock::now() - start_;
  }
  AddTime(const AddTime&) = delete;

 private:
  std::chrono::nanoseconds* const to_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace tombolo::train
