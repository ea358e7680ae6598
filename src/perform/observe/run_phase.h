// What a launcher is doing in one epoch of a run.
//
//   gathering     until every rank has said hello
//   taking stock  until every host has reported which state it has
//   preparing     every rank knows the Plan and where to begin; until all kernels are loaded and all
//                 links are up
//   performing    until all steps are done, the last checkpoint exists on every host, and the Trace
//                 is complete
//   ending        every rank was told that all is done, and exits; a rank that dies now is no loss
//
// Phases follow one another in this order, and none is left out. An epoch can be halted in each of
// them; the next one begins with the first.
#pragma once

#include <array>

#include "base/fields.h"

namespace tombolo::observe {

enum class RunPhase { kGathering, kTakingStock, kPreparing, kPerforming, kEnding };

constexpr auto enum_names(RunPhase) {
  return std::to_array<EnumName<RunPhase>>({{RunPhase::kGathering, "gathering"},
                                            {RunPhase::kTakingStock, "taking stock"},
                                            {RunPhase::kPreparing, "preparing"},
                                            {RunPhase::kPerforming, "performing"},
                                            {RunPhase::kEnding, "ending"}});
}

}  // namespace tombolo::observe
