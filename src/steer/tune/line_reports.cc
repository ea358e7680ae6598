#include "steer/tune/line_reports.h"

#include <algorithm>
#include <utility>

namespace tombolo::tune {

LineReport LineReports::line_of(int64_t iteration, const Open& open) const {
  std::optional<SimDuration> computing;
  SimDuration waited;
  OfStage busiest;
  for (const auto& [stage, each] : open.stages) {
    computing = std::min(computing.value_or(each.computing), each.computing);
    waited = std::max(waited, *each.waited);
    if (each.in_flight >= busiest.in_flight) busiest = each;
  }
  return {.iteration = iteration,
          .computing = seconds(*computing),
          .waited = seconds(waited),
          .came = Bytes{static_cast<double>(busiest.bytes)} * byte_scale_,
          .in_flight = seconds(busiest.in_flight)};
}

std::optional<LineReport> LineReports::add(int32_t rank, int64_t iteration,
                                           const std::optional<RankReport>& report) {
  if (iteration <= closed_) return std::nullopt;
  Open& open = open_[iteration];
  if (!open.reported.insert(rank).second) return std::nullopt;
  if (report) {
    OfStage& of = open.stages[plan_->ranks[static_cast<size_t>(rank)].stage];
    of.computing = std::max(of.computing, report->computing);
    of.waited = std::min(of.waited.value_or(report->waited), report->waited);
    if (report->in_flight >= of.in_flight) {
      of.in_flight = report->in_flight;
      of.bytes = report->bytes;
    }
  }
  if (open.reported.size() < plan_->ranks.size()) return std::nullopt;
  const auto node = open_.extract(iteration);
  closed_ = iteration;
  if (node.mapped().stages.empty()) return std::nullopt;
  return line_of(iteration, node.mapped());
}

RateController::Options controller_options(const plan::Plan& plan, double density) {
  const plan::Exchange& exchange = *plan.exchange;
  return {.density = density,
          .lowest = exchange.density_range[0],
          .highest = exchange.density_range[1],
          .hides = exchange.hides_exchange(plan.microbatches()),
          .late = exchange.staleness_in_use() > 0};
}

}  // namespace tombolo::tune
