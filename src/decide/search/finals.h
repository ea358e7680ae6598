// The finals of a search: a closed form sorts millions of candidates, and the few that it puts first
// are simulated and sorted again.
//
// The simulator takes what the closed form leaves out: flows that meet, stages that differ, warm-up
// behind a slow stage. What it says is the candidate's figure from then on, the one that `tombolo
// simulate` says of it, too. As many are simulated as fit into a stated time, from the first one on.
#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/units.h"
#include "spec/plan/job.h"

namespace tombolo::search {

struct Finals {
  int candidates = 0;  // at most this many
  Seconds at_most{2};  // of one core, by sim::kPassesPerSecond
  // Asked by all threads while they simulate: true ends it with those that are done.
  std::function<bool()> stop = {};
  int searched(int top) const { return std::max(top, candidates); }
};
inline constexpr int kFinalists = 16;

struct FinalCounts {
  int64_t simulated = 0;
  int64_t of = 0;
  int64_t apart = 0;  // of those simulated, more than kApart from the closed form
};
inline constexpr double kApart = 0.02;

// "16 of 16 finalists simulated, 3 of them more than 2 % from the closed form"; empty: there were none.
std::string finals_text(const FinalCounts& counts);

// The iterations of these jobs, the best first.
std::vector<std::optional<Seconds>> simulate_finals(const Finals& finals,
                                                    const std::vector<plan::Job>& jobs,
                                                    int threads);

// Writes what was simulated into plans, which say `closed_form` and keep `simulated`, and puts these in
// front of the others, both in the order of `before`.
template <class Plan, class ClosedForm, class Before>
FinalCounts hold_finals(const std::vector<std::optional<Seconds>>& times, std::vector<Plan>& plans,
                        const ClosedForm& closed_form, const Before& before) {
  FinalCounts counts{.simulated = 0, .of = std::ssize(times), .apart = 0};
  for (size_t i = 0; i < times.size(); ++i) {
    if (!times[i]) continue;
    ++counts.simulated;
    plans[i].simulated = times[i];
    if (std::abs(*times[i] / closed_form(plans[i]) - 1) > kApart) ++counts.apart;
  }
  const auto others = std::stable_partition(
      plans.begin(), plans.end(), [](const Plan& plan) { return plan.simulated.has_value(); });
  std::stable_sort(plans.begin(), others, before);
  std::stable_sort(others, plans.end(), before);
  return counts;
}

}  // namespace tombolo::search
