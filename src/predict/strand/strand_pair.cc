#include "predict/strand/strand_pair.h"

#include "base/check.h"

namespace tombolo::strand {

StrandPair::StrandPair(Dag forward, Dag backward, const OverlapTable& overlap)
    : forward_(std::move(forward)), backward_(std::move(backward)) {
  const size_t n = size();
  pace_.assign(n * n, 1);
  error_.assign(n * n, 0);
  for (size_t a = 0; a < n; ++a) {
    for (size_t b = a + 1; b < n; ++b) set_pace(a, b, overlap.pace((*this)[a], (*this)[b]));
  }
}

void StrandPair::set_pace(size_t first, size_t second, Pace pace) {
  CHECK(pace.first > 0 && pace.first <= 1 && pace.second > 0 && pace.second <= 1,
        "paces {} and {} of {} with {}", pace.first, pace.second, (*this)[first].name,
        (*this)[second].name);
  pace_[first * size() + second] = pace.first;
  pace_[second * size() + first] = pace.second;
  error_[first * size() + second] = error_[second * size() + first] = pace.error;
}

void StrandPair::set_seconds(size_t index, double seconds) {
  if (index < forward_.size()) return forward_.set_seconds(index, seconds);
  backward_.set_seconds(index - forward_.size(), seconds);
}

void StrandPair::set_order(Dag forward, Dag backward) {
  CHECK(forward.size() == forward_.size() && backward.size() == backward_.size(),
        "{} and {} operators in the place of {} and {}", forward.size(), backward.size(),
        forward_.size(), backward_.size());
  forward_ = std::move(forward);
  backward_ = std::move(backward);
}

double StrandPair::stream_seconds(Stream stream) const {
  double sum = 0;
  for (size_t i = 0; i < size(); ++i) {
    if ((*this)[i].stream == stream) sum += (*this)[i].seconds;
  }
  return sum;
}

}  // namespace tombolo::strand
