#include "decide/search/finals.h"

#include "predict/cost/price_plan.h"
#include "predict/sim/simulate.h"

namespace tombolo::search {

std::string finals_text(const FinalCounts& counts) {
  if (counts.of == 0) return "";
  std::string text = fmt::format("{} of {} finalists simulated", counts.simulated, counts.of);
  if (counts.simulated > 0) {
    text += fmt::format(", {} of them more than {:.0f} % from the closed form", counts.apart,
                        100 * kApart);
  }
  return text;
}

std::vector<std::optional<Seconds>> simulate_finals(const Finals& finals,
                                                    const std::vector<plan::Job>& jobs,
                                                    int threads) {
  std::vector<std::optional<plan::Plan>> plans;
  for (size_t i = 0; i < jobs.size() && i < static_cast<size_t>(finals.candidates); ++i) {
    Result<plan::Plan> plan = cost::make_plan(jobs[i]);
    plans.push_back(plan ? std::optional(std::move(*plan)) : std::nullopt);
  }
  return sim::iterations_within(finals.at_most, plans, threads);
}

}  // namespace tombolo::search
