// How far a training gets with the samples that it sees, to compare how many one with compressed
// gradients, or with another batch, needs to the same loss.
//
//   smoothed(n) = sum_i w_i loss_i / sum_i w_i,   w_i = exp(-(n - i) X / tau)     X: samples of a step
//
// tau is the same number of samples for all curves that are compared, so that a curve of few large
// steps lags no more than one of many small ones. The paper's 0.99 a step is a tau of 100 steps.
#pragma once

#include <cstdint>
#include <vector>

namespace tombolo::tune {

struct LossCurve {
  int64_t batch = 1;           // samples of a step
  std::vector<double> losses;  // of each step, from the first on

  double samples() const;
};

// As many values as losses. tau > 0, in samples.
std::vector<double> smoothed(const LossCurve& curve, double tau);

// How many samples the reference saw until its smoothed loss was as low as that of `curve` is at its
// end, over how many `curve` saw: 0.5 where the curve took twice as many. Between two steps of the
// reference losses are interpolated linearly. The reference's samples are clamped to between its first
// step and all of them: a curve that ends lower than the reference ever was may have come further, and
// one with a loss that is not a number got no further than that step. CHECKs that both have a loss.
// O(steps).
double worth_of_a_sample(const LossCurve& reference, const LossCurve& curve, double tau);

}  // namespace tombolo::tune
