#include "predict/cost/mixed_pipeline.h"

#include <algorithm>
#include <vector>

#include "base/check.h"

namespace tombolo::cost {
namespace {

void check_shape(std::span<const StagePass> stages, std::span<const Hop> hops) {
  CHECK(!stages.empty() && hops.size() + 1 == stages.size(), "{} stages, {} hops", stages.size(),
        hops.size());
}

}  // namespace

Seconds period(std::span<const StagePass> stages, std::span<const Hop> hops) {
  check_shape(stages, hops);
  Seconds most;
  for (const Hop& hop : hops) most = std::max(most, hop.occupancy);
  for (size_t i = 0; i < stages.size(); ++i) {
    Seconds run;
    for (size_t j = i; j < stages.size(); ++j) {
      run += stages[j].total();
      if (j > i) run += 2 * hops[j - 1].exposed;
      most = std::max(most, run / real(j - i + 1));
    }
  }
  return most;
}

Seconds round_trip(std::span<const StagePass> stages, std::span<const Hop> hops) {
  check_shape(stages, hops);
  Seconds sum;
  for (const StagePass& stage : stages) sum += stage.total();
  for (const Hop& hop : hops) sum += 2 * hop.transfer;
  return sum;
}

Seconds mixed_pipeline(std::span<const StagePass> stages, std::span<const Hop> hops,
                       int64_t microbatches) {
  CHECK(microbatches >= 1, "{} microbatches", microbatches);
  return round_trip(stages, hops) + static_cast<double>(microbatches - 1) * period(stages, hops);
}

MixedIteration mixed_iteration(std::span<const StagePass> stages, std::span<const Hop> hops,
                               std::span<const Seconds> ends, int64_t microbatches) {
  CHECK(ends.size() == stages.size(), "{} ends of {} stages", ends.size(), stages.size());
  MixedIteration out;
  out.round_trip = round_trip(stages, hops);
  out.period = period(stages, hops);
  out.end = *std::max_element(ends.begin(), ends.end());
  out.iteration = mixed_pipeline(stages, hops, microbatches) + out.end;
  return out;
}

}  // namespace tombolo::cost
