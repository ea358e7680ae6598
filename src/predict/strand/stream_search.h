// A schedule without barriers: operators of both strands in order on three streams, each waiting
// for what it needs and for nothing else.
//
// A plan of segments seeds it, with events in the place of barriers, and once more with every
// operator as early as it can start. From there a branch and bound over
// what each stream takes next, or whether it waits: by limited discrepancy (Harvey and Ginsberg
// 1995), so that what departs least from the seed is tried first. The bound of a partial schedule
// is the longest of what streams still have to do and of the chains still to come, at full pace.
// It ends when nothing better can exist, which is a proof, or after `nodes_max` decisions.
#pragma once

#include <cstdint>
#include <vector>

#include "predict/strand/co_run.h"
#include "predict/strand/ideal_search.h"

namespace tombolo::strand {

struct StreamSchedule {
  std::vector<OperatorRun> runs;  // in order of start
  double seconds = 0;
  double seed_seconds = 0;  // of the plan of segments, with barriers that cost nothing
  bool proved = false;      // nothing is shorter
  int64_t nodes = 0;
};

StreamSchedule search_streams(const StrandPair& pair, const SegmentPlan& seed, int64_t nodes_max);

// What each operator waits for besides its own strand and stream: that which ended when it started.
// Some starts are put off on purpose, because what runs would suffer.
std::vector<PairSet> events_of(const StrandPair& pair, const StreamSchedule& schedule);

// The same order on every stream and the same events, with other paces or times.
double replay(const StrandPair& pair, const StreamSchedule& schedule,
              std::vector<OperatorRun>* runs = nullptr);

}  // namespace tombolo::strand
