// Which compression rate, and which batch on each device, reach an accuracy soonest over a link of a
// given bandwidth: the search of StellaTrain's controller.
//
//   least (1 + g(r, X)) / (X / t)  +  lambda s / m          X = sum x_i, t = max t_i, t_i = x_i / f_i(x_i)
//   where  r >= 1 - B t_i / M  for every device i           M: bytes of all gradients, uncompressed
//
// s and m are the standard deviation and the mean of the t_i. The first term is the time until an
// accuracy, per sample that it takes without compression (equations 4 and 5); the second keeps
// devices from waiting for each other (equation 3, of which the paper prints the variance without
// its division); the condition lets the gradients be there when the next iteration ends (equation
// 6). As g falls with r at some batches and rises at others, r is part of the search.
//
// Source: Lim et al. 2024 (StellaTrain), section 4.2. docs/laws/tuning.md.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "steer/tune/device_throughput.h"

namespace tombolo::tune {

struct TunedDevice {
  DeviceThroughput throughput;
  int64_t batch_max = 1;  // that its memory holds
};

struct TuningProblem {
  std::vector<TunedDevice> devices;
  double elements = 1;          // of the gradients
  Bytes bytes_per_element{8};   // that is sent: a value and its number, as the paper has them
  BytesPerSecond bandwidth{1};  // of the link, one way
  Seconds variation_weight;     // lambda
  double rate_max = 0.999;

  Bytes gradients() const { return bytes_per_element * elements; }
};

// g: the relative increase of the samples to a loss, at a rate and a total batch. Where it is not above -1, or not
// finite, that rate and batch are never chosen.
using SampleIncrease = std::function<double(double rate, double batch)>;

struct TunedBatches {
  double rate = 0;
  std::vector<int64_t> batches;  // of each device
  Seconds objective;             // what was minimised
  Seconds iteration;
  double variation = 0;

  int64_t total() const;
};

// Equation 3: standard deviation over mean of what an iteration takes on each device. CHECKs, as the
// next two do, that there is a batch for each of at least one device.
double variation(std::span<const TunedDevice> devices, std::span<const double> batches);
// Equation 4: all batches over the longest time.
double samples_per_second(std::span<const TunedDevice> devices, std::span<const double> batches);
// Equation 6: the smallest rate that the link allows, at least 0.
double rate_floor(const TuningProblem& problem, std::span<const double> batches);

// By Nelder and Mead over (r, x_1 .. x_n) from several starts, then whole batches around what they
// found and those that keep one device's pace, improved one sample at a time. Unusable: no device,
// numbers that are not positive. Infeasible: the link is too slow for the largest batches, or g is
// unknown wherever it is not.
//
// Cost: ten thousand evaluations of g for two devices, some hundred thousand for ten.
Result<TunedBatches> search_batches(const TuningProblem& problem, const SampleIncrease& increase);

}  // namespace tombolo::tune
