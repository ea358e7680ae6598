#include "perform/run/density_control.h"

#include <algorithm>
#include <utility>

#include "perform/run/kept_change.h"

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
namespace {

tune::Decision decision_of(const observe::DensityChange& change) {
  return {.first_iteration = change.first_iteration,
          .density = change.density,
          .rate = change.rate,
          .reason = change.reason};
}

}  // namespace

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
  auto newest = read_change<observe::DensityChange>(file_);
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
  reports_.emplace(*plan_, first_iteration, plan_->run.byte_scale);
  const tune::RateController::Options options = tune::controller_options(*plan_, density_);
  controller_.emplace(options);
  ahead_ = options.ahead;
  changed_before_ = changed_;
  beliefs_.clear();
  return join::DensityOrder{first_iteration, density_};
}

std::optional<observe::DensityChange> DensityControl::add(int32_t rank,
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
  keep({.first_iteration = decided->first_iteration,
        .before = density_,
        .density = decided->density,
        .rate = decided->rate,
        .reason = decided->reason});
  keep_change(file_, changes_.back());
  return changes_.back();
}

void DensityControl::remove_file() const { forget_change(file_); }

void DensityControl::add_records(std::vector<trace::Record>& records) const {
  const auto newest = std::min(changed_ - changed_before_, std::ssize(changes_));
  std::vector<tune::Decision> decisions;
  for (auto change = changes_.end() - newest; change != changes_.end(); ++change)
    decisions.push_back(decision_of(*change));
  tune::add_decisions(decisions, beliefs_, records);
}

std::string to_line(const observe::DensityChange& change) {
  return tune::to_line(change.before, decision_of(change));
}

}  // namespace tombolo::run
