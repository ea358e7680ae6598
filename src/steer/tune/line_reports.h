// Combines what all ranks report of an iteration's exchange into one report about the line
// (rate_controller.h). Used by the launcher of a run and by the simulator, so the same code decides in virtual
// time and in a run.
//
// The stage whose line is busy for longest counts for an iteration. If a replica waits while another of its
// stage does not, it waits for a computation, not for a line.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>

#include "base/time.h"
#include "spec/plan/plan.h"
#include "steer/tune/rate_controller.h"

namespace tombolo::tune {

// What came of sparse updates from other datacenters since the report before, at a rank.
struct RankReport {
  SimDuration computing;  // since then, less what was waited
  SimDuration waited;     // for the exchange, computing nothing
  int64_t bytes = 0;      // that came
  SimDuration in_flight;  // some message was coming: from its first byte to its last
};

class LineReports {
 public:
  // The Plan outlives it. `byte_scale`: what bytes are divided by before they are sent.
  LineReports(const plan::Plan& plan, int64_t first_iteration, double byte_scale)
      : plan_(&plan), byte_scale_(byte_scale), closed_(first_iteration - 1) {}

  // Call once for each rank and iteration; nothing for a rank that exchanges nothing. Returns the line's
  // report with the last rank's, with bytes as the Plan counts them.
  std::optional<LineReport> add(int32_t rank, int64_t iteration,
                                const std::optional<RankReport>& report);

 private:
  // A stage in an iteration, over its replicas.
  struct OfStage {
    SimDuration computing;              // the longest
    std::optional<SimDuration> waited;  // the shortest
    int64_t bytes = 0;                  // of the one to which some were coming for longest
    SimDuration in_flight;
  };
  struct Open {
    std::set<int32_t> reported;
    std::map<int32_t, OfStage> stages;
  };
  LineReport line_of(int64_t iteration, const Open& open) const;

  const plan::Plan* plan_;
  double byte_scale_;
  std::map<int64_t, Open> open_;
  int64_t closed_;  // the last iteration of which all reports came
};

// Of a Plan whose density changes, from `density` on.
RateController::Options controller_options(const plan::Plan& plan, double density);

}  // namespace tombolo::tune
