#include "perform/run/density_control.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "base/file.h"
#include "base/json.h"

namespace tombolo::observe {

template <class Archive>
void describe(Archive& a, DensityChange& change) {
  a.required("first_iteration", change.first_iteration);
  a.required("before", change.before);
  a.required("density", change.density);
  a.required("line_bytes_per_s", change.rate.value);
  a.required("reason", change.reason);
}

}  // namespace tombolo::observe

namespace tombolo::run {

DensityControl::DensityControl(const plan::Plan& plan, std::string file, bool goes_on)
    : plan_(&plan),
      apart_(plan.replicas_lie_apart()),
      file_(std::move(file)),
      density_(plan.exchange.value_or(plan::Exchange{}).density_in_use()) {
  if (!is_on() || file_.empty()) return;
  if (goes_on) {
    take_over();
  } else {
    remove_file();
  }
}

void DensityControl::take_over() {
  const auto text = read_file(file_);
  const auto value = text ? parse_json(*text, file_) : Result<Value>(tl::unexpected(text.error()));
  if (!value) return;
  auto newest = read_fields<observe::DensityChange>(*value, file_);
  const std::vector<double>& range = plan_->exchange->density_range;
  if (!newest || newest->density < range[0] || newest->density > range[1]) return;
  keep(std::move(*newest));
}

void DensityControl::keep(observe::DensityChange change) {
  density_ = change.density;
  ++changed_;
  if (changes_.size() == kChangesKept) changes_.erase(changes_.begin());
  changes_.push_back(std::move(change));
}

std::optional<join::DensityOrder> DensityControl::begin(int64_t first_iteration) {
  if (!is_on()) return std::nullopt;
  open_.clear();
  closed_ = first_iteration - 1;
  const plan::Exchange& exchange = *plan_->exchange;
  controller_.emplace(
      tune::RateController::Options{.density = density_,
                                    .lowest = exchange.density_range[0],
                                    .highest = exchange.density_range[1],
                                    .hides = exchange.hides_exchange(plan_->microbatches()),
                                    .late = exchange.staleness_in_use() > 0});
  return join::DensityOrder{first_iteration, density_};
}

tune::LineReport DensityControl::line_of(int64_t iteration, const Open& open) const {
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
          .came = Bytes{static_cast<double>(busiest.bytes)} * plan_->run.byte_scale,
          .in_flight = seconds(busiest.in_flight)};
}

std::optional<observe::DensityChange> DensityControl::add(int32_t rank,
                                                          const stage::IterationReport& report) {
  if (!controller_ || report.iteration <= closed_) return std::nullopt;
  Open& open = open_[report.iteration];
  if (!open.reported.insert(rank).second) return std::nullopt;
  if (report.exchange) {
    OfStage& of = open.stages[plan_->ranks[static_cast<size_t>(rank)].stage];
    of.computing = std::max(of.computing, report.exchange->computing);
    of.waited = std::min(of.waited.value_or(report.exchange->waited), report.exchange->waited);
    if (report.exchange->in_flight >= of.in_flight) {
      of.in_flight = report.exchange->in_flight;
      of.bytes = report.exchange->bytes;
    }
  }
  if (open.reported.size() < plan_->ranks.size()) return std::nullopt;
  const auto node = open_.extract(report.iteration);
  closed_ = report.iteration;
  if (node.mapped().stages.empty()) return std::nullopt;
  const auto decided = controller_->add(line_of(report.iteration, node.mapped()));
  if (!decided || decided->first_iteration > plan_->run.steps) return std::nullopt;
  keep({.first_iteration = decided->first_iteration,
        .before = density_,
        .density = decided->density,
        .rate = decided->rate,
        .reason = decided->reason});
  // On a full disk a launcher that continues this run begins with the Plan's.
  if (!file_.empty())
    static_cast<void>(write_file(file_, to_json(write_fields(changes_.back()), -1)));
  return changes_.back();
}

void DensityControl::remove_file() const {
  std::error_code ec;
  if (!file_.empty()) std::filesystem::remove(file_, ec);
}

std::string to_line(const observe::DensityChange& change) {
  return fmt::format("density {:g} -> {:g} from iteration {} on: {}", change.before, change.density,
                     change.first_iteration, change.reason);
}

}  // namespace tombolo::run
