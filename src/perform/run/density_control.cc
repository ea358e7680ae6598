#include "perform/run/density_control.h"

#include <utility>

namespace tombolo::run {

DensityControl::DensityControl(const plan::Plan& plan, std::string file, bool goes_on)
    : plan_(&plan),
      apart_(plan.replicas_lie_apart()),
      history_(std::move(file)),
      density_(plan.exchange.value_or(plan::Exchange{}).density_in_use()) {
  if (!is_on()) return;
  if (!goes_on) {
    history_.remove_file();
    return;
  }
  history_.take_over([&](const tune::DensityDecision& newest) {
    const std::vector<double>& range = plan_->exchange->density_range;
    return newest.density >= range[0] && newest.density <= range[1];
  });
  if (!history_.newest().empty()) density_ = history_.newest().back().density;
}

std::optional<join::DensityOrder> DensityControl::begin(int64_t first_iteration) {
  if (!is_on()) return std::nullopt;
  reports_.emplace(*plan_, first_iteration, plan_->run.byte_scale);
  const tune::RateController::Options options = tune::controller_options(*plan_, density_);
  controller_.emplace(options);
  ahead_ = options.ahead;
  history_.begin_epoch();
  beliefs_.clear();
  return join::DensityOrder{first_iteration, density_};
}

std::optional<tune::DensityDecision> DensityControl::add(int32_t rank,
                                                         const stage::IterationReport& report) {
  if (!controller_) return std::nullopt;
  std::optional<tune::RankReport> of_rank;
  if (report.exchange) {
    const stage::ExchangeReport& of = *report.exchange;
    of_rank = {of.computing, of.waited, of.bytes, of.in_flight};
  }
  const auto line = reports_->add(rank, report.iteration, of_rank);
  if (!line) return std::nullopt;
  const auto decided = controller_->add(*line);
  beliefs_.push_back({line->iteration + ahead_, controller_->rate()});
  if (!decided || decided->first_iteration > plan_->run.steps) return std::nullopt;
  density_ = decided->density;
  history_.keep(*decided);
  return decided;
}

void DensityControl::add_records(std::vector<trace::Record>& records) const {
  tune::add_decisions(history_.of_epoch(), beliefs_, records);
}

}  // namespace tombolo::run
