#include "perform/link/link_tuner.h"

#include <algorithm>

#include "base/check.h"

namespace tombolo::link {
namespace {

constexpr double kSettle = 8, kSettleFirst = 12, kMeasure = 6, kWindow = 10;  // round trips
constexpr Seconds kSettleMin{0.2}, kMeasureMin{0.2}, kWindowMin{0.5};
constexpr Seconds kRoundTripMin{0.001}, kRoundTripMax{0.5};
constexpr double kHopeless = 0.7;  // of the best arm
constexpr double kGrowing = 1.1;   // second half of a measurement over the first
constexpr double kFalls = 0.95;
constexpr double kTrustMin = 0.5, kForgiven = 0.1;
constexpr int kExtensions = 2;
constexpr double kAlike = 0.98;         // of the highest rate
constexpr double kQueueMatters = 1.25;  // round trip over the shortest
constexpr double kFell = 0.9, kOvertaken = 0.92, kRose = 1.25;
constexpr double kFellDeep = 0.75;
constexpr int kLasting = 3;  // windows; one of a deep fall counts twice
constexpr Seconds kPauseFirst{10}, kPauseMax{600};

double mbps(BytesPerSecond rate) { return rate.value * 8e-6; }

}  // namespace

std::string text(const LinkChoice& choice) {
  return fmt::format("{} connection{}{}{}", choice.connections, choice.connections == 1 ? "" : "s",
                     choice.congestion_control.empty() ? "" : ", ", choice.congestion_control);
}

LinkTuner::LinkTuner(Options options) : options_(std::move(options)) {
  if (options_.congestion_controls.empty()) options_.congestion_controls.emplace_back();
  CHECK(!options_.connections.empty(), "a link without connections");
  for (const std::string& control : options_.congestion_controls) {
    for (const uint32_t n : options_.connections) arms_.push_back({.choice = {n, control}});
  }
  start_ = current_ = nearest(options_.connections_first);
  if (arms_.size() == 1) phase_ = Phase::kWatching;
}

// Of the first congestion control.
size_t LinkTuner::nearest(uint32_t connections) const {
  size_t best = 0;
  const auto distance = [&](size_t i) {
    const uint32_t n = options_.connections[i];
    return n > connections ? n - connections : connections - n;
  };
  for (size_t i = 1; i < options_.connections.size(); ++i) {
    if (distance(i) < distance(best)) best = i;
  }
  return best;
}

Seconds LinkTuner::settle_time() const {
  return std::max(kSettleMin, (first_visit_ ? kSettleFirst : kSettle) * round_trip_);
}

Seconds LinkTuner::measure_time() const { return std::max(kMeasureMin, kMeasure * round_trip_); }

bool LinkTuner::sample(const Sample& sample) {
  const auto last = std::exchange(last_, sample);
  if (!last || sample.at <= last->at || arms_.size() == 1) return false;
  const Seconds time = seconds(sample.at - last->at);
  round_trip_ = std::min(round_trip_, std::clamp(sample.round_trip, kRoundTripMin, kRoundTripMax));
  busy_ += time;
  span_.time += time;
  span_.bytes += static_cast<double>(sample.delivered) - static_cast<double>(last->delivered);
  span_.retransmits += sample.retransmitted - last->retransmitted;
  span_.round_trips += sample.round_trip.value * time.value;
  switch (phase_) {
    case Phase::kSettling:
      if (span_.time < settle_time()) return false;
      span_ = {};
      phase_ = Phase::kMeasuring;
      return false;
    case Phase::kMeasuring:
      return measure();
    case Phase::kWatching:
      return watch();
  }
  return false;
}

bool LinkTuner::measure() {
  const Seconds time = measure_time();
  if (first_half_.time.value == 0 && 2 * span_.time >= time) {
    first_half_ = span_;
    const size_t rival = best();
    if (arms_[rival].seen && span_.rate() < kHopeless * arms_[rival].rate) return go_on();
  }
  if (span_.time < time) return false;
  const Span later{.time = span_.time - first_half_.time, .bytes = span_.bytes - first_half_.bytes};
  if (extensions_ < kExtensions && later.rate() > kGrowing * first_half_.rate()) {
    ++extensions_;
    span_ = first_half_ = {};
    return false;
  }
  return go_on();
}

bool LinkTuner::go_on() {
  Arm& arm = arms_[current_];
  arm.seen = true;
  const bool falls = span_.retransmits > 0 && arm.choice.congestion_control != "bbr";
  arm.rate = arm.trust * (falls ? kFalls : 1) * span_.rate();
  arm.round_trip = Seconds{span_.round_trips / span_.time.value};
  first_visit_ = false;
  const size_t before = current_;
  if (const auto next = next_visit()) {
    visit(*next);
  } else {
    const size_t winner = best();
    judge_the_fallen(arms_[winner].rate);
    pause_ = winner != start_ ? pause_ / 2 : std::clamp(2 * pause_, kPauseFirst, kPauseMax);
    visit(winner);
    phase_ = Phase::kWatching;
    explored_at_ = busy_;
    low_ = high_ = -1;  // the first window still settles
  }
  return current_ != before;
}

// Where another arm has what this one promised, the path did not fall: the visit was too good, and
// those of other arms with its congestion control would be as well.
void LinkTuner::judge_the_fallen(BytesPerSecond best) {
  if (!fell_from_) return;
  const Arm fallen = arms_[start_];
  if (best >= kFell * *fell_from_) {
    for (Arm& arm : arms_) {
      if (arm.choice.congestion_control == fallen.choice.congestion_control)
        arm.trust = std::clamp(arm.trust * (fallen.rate / *fell_from_), kTrustMin, 1.0);
    }
  }
  fell_from_.reset();
}

void LinkTuner::visit(size_t arm) {
  if (arm != current_) ++changes_;
  current_ = arm;
  phase_ = Phase::kSettling;
  span_ = first_half_ = {};
  extensions_ = 0;
}

// Every congestion control once, then the neighbours of the best.
std::optional<size_t> LinkTuner::next_visit() const {
  const size_t row = options_.connections.size();
  for (size_t at = start_ % row; at < arms_.size(); at += row) {
    if (!arms_[at].seen && arms_[at].trust >= kHopeless) return at;
  }
  const size_t winner = best();
  if (winner % row > 0 && !arms_[winner - 1].seen) return winner - 1;
  if (winner % row + 1 < row && !arms_[winner + 1].seen) return winner + 1;
  return std::nullopt;
}

// Of the arms that were seen; the current one where none was.
size_t LinkTuner::best() const {
  BytesPerSecond highest;
  for (const Arm& arm : arms_) {
    if (arm.seen) highest = std::max(highest, arm.rate);
  }
  const auto alike = [&](const Arm& arm) { return arm.seen && arm.rate >= kAlike * highest; };
  Seconds shortest = kRoundTripMax;
  for (const Arm& arm : arms_) {
    if (alike(arm)) shortest = std::min(shortest, arm.round_trip);
  }
  std::optional<size_t> found;
  for (size_t i = 0; i < arms_.size(); ++i) {
    if (!alike(arms_[i]) || arms_[i].round_trip > kQueueMatters * shortest) continue;
    if (!found || arms_[i].choice.connections < arms_[*found].choice.connections ||
        (arms_[i].choice.connections == arms_[*found].choice.connections &&
         arms_[i].rate > arms_[*found].rate)) {
      found = i;
    }
  }
  return found.value_or(current_);
}

BytesPerSecond LinkTuner::best_other() const {
  BytesPerSecond out;
  for (size_t i = 0; i < arms_.size(); ++i) {
    if (i != current_ && arms_[i].seen) out = std::max(out, arms_[i].rate);
  }
  return out;
}

// The first window after a change is still settling and does not count against it.
bool LinkTuner::watch() {
  if (span_.time < std::max(kWindowMin, kWindow * round_trip_)) return false;
  const BytesPerSecond rate = span_.rate();
  const Span window = std::exchange(span_, {});
  Arm& arm = arms_[current_];
  arm.round_trip = Seconds{window.round_trips / window.time.value};
  const bool low = rate < kFell * arm.rate || rate < kOvertaken * best_other();
  const bool high = rate > kRose * arm.rate;
  const bool deep = rate < kFellDeep * arm.rate;
  low_ = low || low_ < 0 ? low_ + (deep && low_ >= 0 ? 2 : 1) : 0;
  high_ = high || high_ < 0 ? high_ + 1 : 0;
  if (!low && !high) arm.rate += 0.2 * (rate - arm.rate);
  if (low_ < kLasting && high_ < kLasting) return false;
  if (busy_ - explored_at_ < pause_) return false;
  if (low) fell_from_ = arm.rate;
  const std::string why = fmt::format("{} from {:.0f} to {:.0f} Mbps", low ? "fell" : "rose",
                                      mbps(arm.rate), mbps(rate));
  arm.rate = rate;
  explore_again(why);
  return choice() != arms_[start_].choice;
}

// What the arm has now is known; the others are stale.
void LinkTuner::explore_again(std::string why) {
  why_again_ = std::move(why);
  for (Arm& arm : arms_) {
    arm.seen = false;
    arm.trust += kForgiven * (1 - arm.trust);
  }
  arms_[current_].seen = true;
  start_ = current_;
  round_trip_ = kUnknown;
  if (const auto next = next_visit()) visit(*next);
}

std::string LinkTuner::reason() const {
  if (arms_.size() == 1) return "there is nothing to choose from";
  std::string tried;
  for (size_t i = 0; i < arms_.size(); ++i) {
    if (!arms_[i].seen || (i == current_ && !exploring())) continue;
    tried += fmt::format("{}{} {} {:.0f}", tried.empty() ? "" : ", ", arms_[i].choice.connections,
                         arms_[i].choice.congestion_control, mbps(arms_[i].rate));
  }
  const std::string again = why_again_.empty() ? "" : fmt::format(" (it {})", why_again_);
  if (exploring()) {
    return fmt::format("trying {}{}{}", text(choice()), again,
                       tried.empty() ? "" : "; so far, Mbps: " + tried);
  }
  const Arm& arm = arms_[current_];
  const bool highest = arm.rate >= best_other();
  std::string out = fmt::format("{:.0f} Mbps at a round trip of {:.0f} ms{}", mbps(arm.rate),
                                arm.round_trip.value * 1e3, again);
  out += highest ? ", the most"
                 : ", as much as others within 2 %, with fewer connections or a shorter queue";
  return out + "; tried, Mbps: " + tried;
}

}  // namespace tombolo::link
