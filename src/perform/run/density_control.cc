#include "perform/run/density_control.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "base/file.h"
#include "base/json.h"

namespace tombolo::run {
namespace {

struct KeptDensity {
  double density = 0;
};
template <class Archive>
void describe(Archive& a, KeptDensity& kept) {
  a.required("density", kept.density);
  a.check(kept.density > 0 && kept.density <= 1, "density", "must be above 0 and at most 1");
}

}  // namespace

DensityControl::DensityControl(const plan::Plan& plan, std::string file)
    : plan_(&plan),
      apart_(plan.replicas_lie_apart()),
      file_(std::move(file)),
      density_(plan.exchange.value_or(plan::Exchange{}).density_in_use()) {}

Result<DensityControl> DensityControl::open(const plan::Plan& plan, const std::string& file,
                                            bool goes_on) {
  DensityControl out(plan, file);
  if (!out.is_on() || file.empty()) return out;
  if (!goes_on) {
    out.remove_file();
    return out;
  }
  if (!std::filesystem::exists(file)) return out;
  const Value text = TRY(parse_json(TRY(read_file(file)), file));
  const auto kept = TRY(read_fields<KeptDensity>(text, file));
  out.density_ =
      std::clamp(kept.density, plan.exchange->density_range[0], plan.exchange->density_range[1]);
  return out;
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
  if (density_ == exchange.density_in_use()) return std::nullopt;
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
  const double before = std::exchange(density_, decided->density);
  changes_.push_back({.first_iteration = decided->first_iteration,
                      .before = before,
                      .density = decided->density,
                      .rate = decided->rate,
                      .reason = decided->reason});
  // A launcher that cannot read it begins with the Plan's, and soon knows better.
  if (!file_.empty())
    static_cast<void>(write_file(file_, to_json(write_fields(KeptDensity{density_}), -1)));
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
