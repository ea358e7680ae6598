#include "steer/prefill/rank_windows.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace tombolo::prefill {

Result<std::vector<RankPlan>> rank_plans(const trace::Trace& trace) {
  const Period period = TRY(period_of(trace));
  std::vector<std::map<action::Action, Span>> ranks(trace.header.ranks.size());
  for (const trace::Interval& interval : trace.intervals) {
    if (interval.iteration != period.iteration || !takes_gpu(interval)) continue;
    if (interval.rank >= std::ssize(ranks)) ranks.resize(static_cast<size_t>(interval.rank) + 1);
    const auto* part = std::get_if<trace::PassPart>(&interval.origin);
    const auto [known, first] = ranks[static_cast<size_t>(interval.rank)].emplace(
        part ? part->pass : interval.action, Span{interval.start, interval.end});
    if (first) continue;
    known->second.start = std::min(known->second.start, interval.start);
    known->second.end = std::max(known->second.end, interval.end);
  }
  std::vector<RankPlan> plans;
  const auto since = [&](SimTime t) { return SimTime{} + (t - period.origin); };
  for (const auto& computations : ranks) {
    RankPlan& plan = plans.emplace_back(RankPlan{.period = period.length, .computations = {}});
    for (const auto& [action, span] : computations)
      plan.computations.push_back({action, since(span.start), since(span.end)});
    std::ranges::sort(plan.computations, {}, [](const PlannedComputation& each) {
      return std::pair(each.start, each.end);
    });
  }
  return plans;
}

Busy busy_of(const RankPlan& plan) {
  std::vector<Span> spans;
  for (const PlannedComputation& each : plan.computations) spans.push_back({each.start, each.end});
  return folded(spans, {}, plan.period);
}

RankWindows::RankWindows(RankPlan plan, SimDuration guard) : plan_(std::move(plan)), guard_(guard) {
  CHECK(!plan_.computations.empty() && plan_.period.ns > 0, "{} computations in a period of {} ns",
        plan_.computations.size(), plan_.period.ns);
  find_places();
}

void RankWindows::find_places() {
  const std::vector<PlannedComputation>& all = plan_.computations;
  std::map<size_t, size_t> last_of;  // by span: the computation that ends it
  for (size_t i = 0; i < all.size(); ++i) {
    const bool first = spans_.empty() || all[i].start > spans_.back().end;
    if (first) spans_.push_back({all[i].start, all[i].end});
    const size_t span = spans_.size() - 1;
    if (first || all[i].end >= spans_.back().end) last_of[span] = i;
    spans_.back().end = std::max(spans_.back().end, all[i].end);
    places_[all[i].action] = {.span = span, .first = first, .last = false};
  }
  for (const auto& [span, i] : last_of) places_.at(all[i].action).last = true;
}

const RankWindows::Place* RankWindows::find(const action::Action& action) const {
  const auto found = places_.find(action);
  return found == places_.end() ? nullptr : &found->second;
}

void RankWindows::begins(int64_t iteration, const action::Action& action, SimTime at) {
  const Place* place = find(action);
  if (!place) return;
  last_signal_ = at;
  const SimTime could = at - std::exchange(held_, {});
  if (!tracker_) {
    first_iteration_ = iteration;
    origin_ = could - (spans_[place->span].start - SimTime{});
    tracker_.emplace(spans_, plan_.period, origin_, guard_);
  }
  iteration_ = iteration;
  if (place->first) tracker_->begins(iteration - first_iteration_, place->span, could);
}

void RankWindows::ends(int64_t iteration, const action::Action& action, SimTime at) {
  const Place* place = find(action);
  if (!place || !tracker_) return;
  last_signal_ = at;
  if (place->last) tracker_->ends(iteration - first_iteration_, place->span, at);
}

std::optional<SimTime> RankWindows::until(SimTime now) const {
  if (!tracker_) return std::nullopt;
  // Between two computations that touch in the Plan the second is due at once.
  const SimTime due = tracker_->computing() ? last_signal_ : tracker_->next();
  if (now > due + SimDuration{plan_.period.ns / kPatience}) return std::nullopt;
  return due - tracker_->guard();
}

std::optional<SimTime> RankWindows::period_begin() const {
  if (!tracker_) return std::nullopt;
  return origin_ + plan_.period * (iteration_ - first_iteration_) + tracker_->late();
}

}  // namespace tombolo::prefill
