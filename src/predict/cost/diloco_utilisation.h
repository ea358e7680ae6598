// What share of the time devices compute when they synchronise every H steps over a slow link: the law
// `diloco-utilisation`.
//
//   U = H T / (H T + max(0, b N / W - o T))
//
// of N parameters, b bits of each sent per synchronisation over a link of rate W, steps of T, and a
// share o of one step's computation that runs while they are sent: 2/3, the backward pass. H = 1 is
// data parallelism.
//
// It has no latency and no second link, and every H-th step ends when all are synchronised: local
// steps with a delay, as schedule/local_steps.h has them, hide more.
//
// Source: Charles et al., Communication-Efficient Language Model Training Scales Reliably and Robustly:
// Scaling Laws for DiLoCo, 2025 (arXiv 2503.09799), table 6, which names neither b nor o: both are
// fitted to it. docs/laws/diloco_utilisation.md.
#pragma once

#include <cstdint>

#include "base/units.h"

namespace tombolo::cost {

// What a ring of four sends each way of a sum of bf16: 2 x 16 bits x (1 - 1/4), over two directions.
inline constexpr double kDilocoBits = 12;

struct DilocoSteps {
  double parameters = 0;
  Seconds step;
  int64_t every = 1;          // H
  double bits = kDilocoBits;  // of a parameter, each synchronisation
  double hidden = 2.0 / 3;    // of one step, at the same time
};

// From 0 to 1; 1 where everything is hidden. rate > 0.
double diloco_utilisation(const DilocoSteps& of, BytesPerSecond rate);

// The lowest rate with this utilisation, 0 < utilisation < 1.
BytesPerSecond diloco_rate(const DilocoSteps& of, double utilisation);

}  // namespace tombolo::cost
