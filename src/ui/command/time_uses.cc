#include "ui/command/time_uses.h"

#include <algorithm>

#include "predict/sim/simulate.h"
#include "spec/schedule/local_steps.h"

namespace tombolo::command {

std::optional<TimeUses> time_uses(const plan::Plan& plan, Seconds iteration, Seconds at_most) {
  const int64_t iterations = std::max(schedule::cycle_of(plan), sim::kOverlappingMin);
  const double passes =
      2 * static_cast<double>(plan.microbatches() * plan.parallelism.stages() * iterations);
  if (passes > at_most.value * sim::kPassesPerSecond) return {};
  const Result<sim::Simulation> simulated = sim::simulate(plan);
  if (!simulated) return {};
  const trace::Breakdown& found = simulated->breakdown;
  const double total = static_cast<double>(found.sum.total().ns);
  if (total <= 0) return {};
  const auto share = [&](double ns) { return iteration * (ns / total); };
  const double exposed = static_cast<double>(found.sum.exposed_communication.ns);
  const double exchange = std::min(exposed, static_cast<double>(found.exposed_exchange.ns) *
                                                static_cast<double>(found.rows.size()));
  return TimeUses{.compute = share(static_cast<double>(found.sum.compute.ns)),
                  .exchange = share(exchange),
                  .communication = share(exposed - exchange),
                  .idle = share(static_cast<double>(found.sum.idle.ns))};
}

}  // namespace tombolo::command
