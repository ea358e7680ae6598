// A job's model folded on the same ranks, with forwards and backwards co-executed (strands): whether
// that is predicted to gain, and what it takes.
#pragma once

#include <optional>
#include <string>

#include "base/result.h"
#include "predict/strand/pair_offer.h"
#include "spec/plan/hardware.h"
#include "spec/plan/job.h"
#include "spec/plan/plan.h"

namespace tombolo::schedule_search {

struct WithStrands {
  strand::PairOffer offer;
  // Where the offer was taken: the folded schedule that simulates shortest, and its time. Left out:
  // none fits or gains, and `obstacle` says why.
  std::string schedule;
  std::optional<Seconds> iteration;
  std::optional<plan::Plan> plan;
  Seconds one_after_the_other;  // of the same schedule without pairs
  Bytes peak_memory;
  std::string obstacle;
};

// Nothing where no layer of the job communicates inside. `only`: no other schedule is tried. Cost: a
// search for strands, and up to four simulations.
std::optional<WithStrands> with_strands(
    const plan::Job& job, const std::optional<layout::ScheduleKind>& only = std::nullopt,
    const plan::Hardware* hardware = nullptr);

// What [parallelism] strands = true asks for: the Plan with pairs where it is predicted to be shorter
// than the Plan without, which it is else; and a line that says which, and why. A schedule of the
// job that has pairs stays. Unusable: [stage_times], which know no layer; what make_plan refuses.
struct StrandsChoice {
  plan::Plan plan;
  std::string line;
};
Result<StrandsChoice> choose_strands(const plan::Job& job,
                                     const plan::Hardware* hardware = nullptr);

// Why there is nothing to run together.
inline constexpr const char* kNoLayerCommunicates = "no layer communicates with other devices";
// The note of commands that leave strands out.
inline constexpr const char* kStrandsLost =
    "[parallelism] strands = true has no effect here: passes come one after the other; simulate, "
    "sweep by simulation, conversion to a Plan and train take it";

}  // namespace tombolo::schedule_search
