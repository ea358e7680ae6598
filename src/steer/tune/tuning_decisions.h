// What a run changes during training, as decided by its controllers: written to files, sent to ranks and shown to
// people. Iterations count from 1.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/fields.h"
#include "base/units.h"

namespace tombolo::tune {

// Another share of the gradients is sent (rate_controller.h).
struct DensityDecision {
  int64_t first_iteration = 1;  // from which on it is used
  double before = 0;
  double density = 0;   // share of the gradients, 0 to 1
  BytesPerSecond rate;  // of the line, as it was estimated; 0: not known
  std::string reason;   // one sentence, with figures
};

// Each pipeline computes another number of microbatches (batch_controller.h).
struct BatchDecision {
  int64_t first_iteration = 1;
  std::vector<int64_t> before, microbatches;  // of each pipeline
  std::string reason;
};

template <class Archive>
void describe(Archive& a, DensityDecision& decision) {
  a.required("first_iteration", decision.first_iteration);
  a.required("before", decision.before);
  a.required("density", decision.density);
  a.required("line_bytes_per_s", decision.rate.value);
  a.required("reason", decision.reason);
}

template <class Archive>
void describe(Archive& a, BatchDecision& decision) {
  a.required("first_iteration", decision.first_iteration);
  a.required("before", decision.before);
  a.required("microbatches", decision.microbatches);
  a.required("reason", decision.reason);
}

// "density 0.01 -> 0.015 from iteration 12 on: ..."
std::string to_line(const DensityDecision& decision);
// "microbatches 8,8,8,4 -> 7,7,8,6 from iteration 40 on: ..."
std::string to_line(const BatchDecision& decision);

}  // namespace tombolo::tune
