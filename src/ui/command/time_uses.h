// Where the time of an iteration goes, by a simulation: for pages of commands whose searches only ask the simulator for a time.
#pragma once

#include <optional>
#include <vector>

#include "base/units.h"
#include "spec/plan/plan.h"

namespace tombolo::command {

// Of a rank, the mean over ranks and iterations (trace::breakdown); they add up to the iteration.
struct TimeUses {
  Seconds compute;
  Seconds exchange;       // exposed, while gradients of the rank's stages are summed
  Seconds communication;  // exposed, all other
  Seconds idle;

  std::vector<double> in_order() const {
    return {compute.value, exchange.value, communication.value, idle.value};
  }
};

// As shares of `iteration`, which may be a median. None where the Plan cannot be simulated, or a core would take longer than
// `at_most` (sim::kPassesPerSecond).
std::optional<TimeUses> time_uses(const plan::Plan& plan, Seconds iteration, Seconds at_most);

}  // namespace tombolo::command
