#include "decide/search/finals.h"

#include <cstddef>

#include "base/parallel.h"
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
  const size_t count = std::min(jobs.size(), static_cast<size_t>(std::max(finals.candidates, 0)));
  std::vector<std::optional<Seconds>> times(count);
  // As many at once as there are threads: where time ends, those before are done.
  const auto at_once = static_cast<size_t>(std::max(threads, 1));
  Seconds left = finals.at_most;
  for (size_t begin = 0; begin < count && left >= 0_s; begin += at_once) {
    if (finals.stop && finals.stop()) break;
    std::vector<std::optional<plan::Plan>> plans(std::min(at_once, count - begin));
    parallel_for(plans.size(), threads, [&](size_t i) {
      Result<plan::Plan> plan = cost::make_plan(jobs[begin + i]);
      if (plan) plans[i] = std::move(*plan);
    });
    const auto some = sim::iterations_within(left, plans, threads, finals.stop);
    std::copy(some.begin(), some.end(), times.begin() + static_cast<std::ptrdiff_t>(begin));
  }
  return times;
}

}  // namespace tombolo::search
