#include "steer/prefill/training_tracker.h"

#include <algorithm>
#include <vector>

#include "base/check.h"
#include "base/quantiles.h"

namespace tombolo::prefill {

void GuardLearner::observe(SimDuration early) {
  early_[seen_ % kKept] = std::max<int64_t>(early.ns, 0);
  ++seen_;
  if (seen_ < kEnough) return;
  const auto end = early_.begin() + static_cast<ptrdiff_t>(std::min(seen_, kKept));
  value_ = {static_cast<int64_t>(quantile(std::vector<double>(early_.begin(), end), kShare))};
}

void DriftLearner::observe(SimDuration later) {
  later_[seen_ % kKept] = later.ns;
  ++seen_;
  if (seen_ < kEnough) return;
  std::vector<int64_t> kept(later_.begin(),
                            later_.begin() + static_cast<ptrdiff_t>(std::min(seen_, kKept)));
  const auto middle = kept.begin() + static_cast<ptrdiff_t>(kept.size() / 2);
  std::nth_element(kept.begin(), middle, kept.end());
  value_ = {*middle};
}

TrainingTracker::TrainingTracker(Busy busy, SimDuration period, SimTime origin, SimDuration guard)
    : busy_(std::move(busy)), period_(period), origin_(origin), guard_(guard) {
  CHECK(!busy_.empty() && period.ns > 0, "{} computations in a period of {} ns", busy_.size(),
        period.ns);
  drifts_.resize(busy_.size());
}

void TrainingTracker::begins(int64_t period, size_t index, SimTime at) {
  CHECK(index < busy_.size(), "computation {} of {}", index, busy_.size());
  const SimTime plan = planned(period, busy_[index].start);
  const SimDuration later = at - (plan + late_);
  guard_.observe(drifts_[index].value() - later);
  drifts_[index].observe(later);
  late_ = at - plan;
  computing_ = true;
  next_period_ = period;
  next_index_ = index;
}

void TrainingTracker::ends(int64_t period, size_t index, SimTime at) {
  CHECK(index < busy_.size(), "computation {} of {}", index, busy_.size());
  late_ = at - planned(period, busy_[index].end);
  computing_ = false;
  next_index_ = (index + 1) % busy_.size();
  next_period_ = period + (next_index_ == 0 ? 1 : 0);
}

SimTime TrainingTracker::next() const {
  const bool last = next_index_ + 1 == busy_.size();
  const size_t index = computing_ ? (last ? 0 : next_index_ + 1) : next_index_;
  const int64_t period = next_period_ + (computing_ && last ? 1 : 0);
  return planned(period, busy_[index].start) + late_ + drifts_[index].value();
}

std::optional<SimTime> TrainingTracker::free_until() const {
  if (computing_) return {};
  return next() - guard();
}

}  // namespace tombolo::prefill
