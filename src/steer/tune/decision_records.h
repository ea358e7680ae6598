// Decisions about the density and the batch in a Trace, in addition to the records "density" of every rank and
// iteration and "microbatches" of every pipeline and iteration. Written by the simulator, and by the launcher of a
// run when it has all parts.
//
//   "microbatches"  of the lowest rank that has it, in the first iteration of a division: the reason as well
//   "density"    of the lowest rank, in the first iteration that has what was decided: the reason as well
//   "line_rate"  bytes per second: what the controller believed of the line when it decided the density of an
//                iteration, or left it
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/units.h"
#include "spec/trace/trace.h"
#include "steer/tune/tuning_decisions.h"

namespace tombolo::tune {

struct LineBelief {
  int64_t iteration = 1;  // whose density was decided by it
  BytesPerSecond rate;    // 0: not known
};

// Decisions in the order of their iterations. One that no iteration followed is left out, as are beliefs of
// iterations that have no density.
void add_decisions(std::span<const DensityDecision> decisions, std::span<const LineBelief> beliefs,
                   std::vector<trace::Record>& records);
void add_decisions(std::span<const BatchDecision> decisions, std::vector<trace::Record>& records);

}  // namespace tombolo::tune
