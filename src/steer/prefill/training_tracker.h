// What one GPU's training really does, signal by signal, against the windows that a Plan predicts.
//
// A worker reports when a computation begins and when it ends. Later ones are expected at their
// predicted distance: training that is 3 ms late stays so until the next signal, and is late in the
// next period as well. If the last periods show another distance than predicted, a computation is
// expected at that one. It may also come earlier, and the guard covers by how much: prefill ends
// that long before a computation is expected.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "steer/prefill/bubble_windows.h"

namespace tombolo::prefill {

// A guard time from what was seen: the 99th percentile (type 7, base/quantiles.h) of how much
// earlier than expected the last 256 computations came, late ones counting as 0. Robust: a single
// computation that comes much too early moves it little, and is forgotten. Until 32 were seen it is
// what it was made with.
class GuardLearner {
 public:
  static constexpr size_t kKept = 256;
  static constexpr size_t kEnough = 32;
  static constexpr double kShare = 0.99;

  explicit GuardLearner(SimDuration at_first) : value_(at_first) {}
  void observe(SimDuration early);  // negative: late
  SimDuration value() const { return value_; }

 private:
  std::array<int64_t, kKept> early_{};
  size_t seen_ = 0;
  SimDuration value_;
};

// By how much a computation comes later than predicted (negative: earlier), period after period: the
// median of the last five times, which one odd iteration does not move; nothing until three.
class DriftLearner {
 public:
  static constexpr size_t kKept = 5;
  static constexpr size_t kEnough = 3;

  void observe(SimDuration later);
  SimDuration value() const { return value_; }

 private:
  std::array<int64_t, kKept> later_{};
  size_t seen_ = 0;
  SimDuration value_;
};

class TrainingTracker {
 public:
  // `busy` as the Plan predicts it; periods count from 0, the first one begins at `origin`.
  // Computations may touch here, and those that reach into the next period are not cut.
  TrainingTracker(Busy busy, SimDuration period, SimTime origin, SimDuration guard);

  // Computation `index` of `busy` in a period. Signals may be missing, but come in order: CHECKs
  // that there is such a computation.
  void begins(int64_t period, size_t index, SimTime at);
  void ends(int64_t period, size_t index, SimTime at);

  bool computing() const { return computing_; }
  SimDuration late() const { return late_; }  // by the last signal; negative: early
  SimDuration guard() const { return guard_.value(); }
  // When the next computation is expected; the guard is not taken off.
  SimTime next() const;
  // Until when prefill may run; nothing while training computes.
  std::optional<SimTime> free_until() const;

 private:
  SimTime planned(int64_t period, SimTime phase) const {
    return origin_ + period_ * period + SimDuration{phase.ns};
  }

  Busy busy_;
  SimDuration period_;
  SimTime origin_;
  GuardLearner guard_;
  std::vector<DriftLearner> drifts_;  // by computation
  SimDuration late_{0};
  bool computing_ = false;
  int64_t next_period_ = 0;
  size_t next_index_ = 0;
};

}  // namespace tombolo::prefill
