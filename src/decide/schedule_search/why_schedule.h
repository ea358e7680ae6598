// Why one schedule is faster than another, from what both were predicted to do.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "spec/plan/plan.h"
#include "spec/trace/trace.h"

namespace tombolo::schedule_search {

// What the ranks of an iteration wait for, as parts of the time of all ranks.
struct Waits {
  double compute = 0;
  // From one datacenter to another: idle until a message from there was in, as a part of the time
  // of the ranks that receive such messages.
  std::map<std::pair<std::string, std::string>, double> wan;
};
Waits waits_of(const trace::Trace& trace);

struct PerformedSchedule {
  std::string name;
  const plan::Plan* plan = nullptr;
  const trace::Trace* trace = nullptr;
  double in_flight = 0;  // microbatches of a stage, at the most
  bool splits = false;
};

// What `slow` waits for and `fast` does not; a line each, the most important first.
std::vector<std::string> why_faster(const PerformedSchedule& fast, const PerformedSchedule& slow);

}  // namespace tombolo::schedule_search
