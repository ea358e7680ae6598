// What is searched: a forward strand and a backward strand that share a device, how long each
// operator takes alone, and how fast any two progress concurrently.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "predict/strand/dag.h"
#include "predict/strand/overlap.h"

namespace tombolo::strand {

// Some operators of both strands.
struct PairSet {
  OperatorSet forward = 0;
  OperatorSet backward = 0;

  bool empty() const { return forward == 0 && backward == 0; }
  // By its number in a pair whose forward strand has `forwards` operators.
  bool has(size_t op, size_t forwards) const {
    return op < forwards ? holds(forward, op) : holds(backward, op - forwards);
  }
  void add(size_t op, size_t forwards) {
    if (op < forwards) {
      forward |= only(op);
    } else {
      backward |= only(op - forwards);
    }
  }
  void remove(size_t op, size_t forwards) {
    if (op < forwards) {
      forward &= ~only(op);
    } else {
      backward &= ~only(op - forwards);
    }
  }
  bool operator==(const PairSet&) const = default;
};

// Operators of both are numbered together: the forward ones, then the backward ones. Operators of
// one strand may run concurrently too, as attention and the next keys do.
class StrandPair {
 public:
  StrandPair(Dag forward, Dag backward, const OverlapTable& overlap);

  // Of the pair as a whole.
  PairSet all() const { return {forward_.all(), backward_.all()}; }
  const Dag& forward() const { return forward_; }
  const Dag& backward() const { return backward_; }
  size_t size() const { return forward_.size() + backward_.size(); }
  const Operator& operator[](size_t index) const {
    return index < forward_.size() ? forward_[index] : backward_[index - forward_.size()];
  }

  // Of the first while the second runs, and how uncertain that is, relative.
  double pace(size_t first, size_t second) const { return pace_[first * size() + second]; }
  double pace_error(size_t first, size_t second) const { return error_[first * size() + second]; }
  void set_pace(size_t first, size_t second, Pace pace);
  void set_seconds(size_t index, double seconds);
  // The same operators with other dependencies.
  void set_order(Dag forward, Dag backward);

  double seconds() const {
    return forward_.seconds(forward_.all()) + backward_.seconds(backward_.all());
  }
  // Of all computation: no plan is shorter. And of each stream.
  double stream_seconds(Stream stream) const;
  double communication() const {
    return stream_seconds(Stream::kLocal) + stream_seconds(Stream::kCross);
  }

 private:
  Dag forward_, backward_;
  std::vector<double> pace_, error_;
};

}  // namespace tombolo::strand
