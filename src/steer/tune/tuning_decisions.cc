#include "steer/tune/tuning_decisions.h"

#include <fmt/format.h>

#include "spec/plan/adaptive_batch.h"

namespace tombolo::tune {

std::string to_line(const DensityDecision& decision) {
  return fmt::format("density {:g} -> {:g} from iteration {} on: {}", decision.before,
                     decision.density, decision.first_iteration, decision.reason);
}

std::string to_line(const BatchDecision& decision) {
  return fmt::format("microbatches {} -> {} from iteration {} on: {}",
                     plan::to_text(decision.before), plan::to_text(decision.microbatches),
                     decision.first_iteration, decision.reason);
}

}  // namespace tombolo::tune
