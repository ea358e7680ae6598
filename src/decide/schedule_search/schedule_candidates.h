// What best_schedule() chooses from: published policies by name, searches, and what is performed
// today.
#pragma once

#include <vector>

#include "decide/schedule_search/best_schedule.h"
#include "spec/schedule/schedule.h"

namespace tombolo::schedule_search::detail {

// A candidate with what it takes to perform it.
struct TriedSchedule {
  ScheduleCandidate candidate;
  plan::Plan plan;            // of all cells
  schedule::Schedule of_one;  // of one cell; empty where it cannot be taken
  bool given = false;         // the Plan must carry it, for no name stands for it
};

inline bool is_imagined(const plan::Plan& plan) {
  return plan.cost_source == plan::CostSource::kStageTimes;
}

// In the order in which equals are preferred: simple ones first. What cannot be taken is there,
// too, with its obstacle.
std::vector<TriedSchedule> try_all(const plan::Plan& base, const BestScheduleOptions& options);

// Under the times of the Plan, with all its cells.
Result<TriedSchedule> try_incumbent(const plan::Plan& incumbent);

}  // namespace tombolo::schedule_search::detail
