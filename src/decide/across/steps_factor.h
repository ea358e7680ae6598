// How many times as many steps a mode of [exchange] takes to the loss that sums of all gradients
// reach.
//
//   dense         1
//   local         law `diloco-steps`: Charles et al. 2025 fit L = A N^a of N parameters to training
//                 with DiLoCo on M datacenters, and to data parallelism, 20 tokens a parameter. A model
//                 with DiLoCo learns as much as one of N' parameters without, L_M(N) = L_1(N'), and
//                 takes N / N' of the tokens. At least 1.
//   sparse        measured, with a decoder of 0.9 million parameters (docs/results/thin_lines.md);
//   sparse-local  sparse blocks also with the model itself, by `tombolo tune`
//
// Domain: M of 1 to 8 (between those that were fitted M counts by its logarithm), an outer step every
// 30 steps, 35 million to 10 billion parameters. `beyond` says where a setting lies outside of it; the
// factor is that of the nearest setting inside.
// Source: Charles et al., Communication-Efficient Language Model Training Scales Reliably and Robustly:
// Scaling Laws for DiLoCo, 2025 (arXiv 2503.09799). docs/laws/steps_to_a_loss.md.
#pragma once

#include <cstdint>
#include <string>

#include "spec/plan/exchange_settings.h"
#include "steer/tune/convergence_profile.h"

namespace tombolo::across {

struct StepsFactor {
  double factor = 1;   // of the steps that dense takes; at least 1
  std::string source;  // for people; empty: 1 by definition
  std::string beyond;  // what of the setting the source does not cover; empty: nothing
};

// datacenters >= 1 that train one model of `parameters` parameters; dense takes any number of datacenters.
StepsFactor steps_factor(const plan::Exchange& exchange, int64_t datacenters, int64_t parameters);

// Of sparse updates of blocks, or of chunks where the profile is of these, what `tombolo tune` measured of the model: samples with that density and batch
// over those with all gradients and the same batch, at least 1. Other modes as above.
StepsFactor steps_factor(const plan::Exchange& exchange, int64_t datacenters, int64_t parameters,
                         const tune::ConvergenceProfile& profile, int64_t batch);

// The law itself. 1 <= datacenters <= 8, parameters >= 1.
double diloco_steps(int64_t datacenters, double parameters);

}  // namespace tombolo::across
