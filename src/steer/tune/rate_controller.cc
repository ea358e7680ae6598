#include "steer/tune/rate_controller.h"

#include <algorithm>
#include <vector>

#include "base/check.h"
#include "spec/plan/exchange_settings.h"

namespace tombolo::tune {
namespace {

constexpr double kHeldUp = 0.05;   // of the computing, what may be waited without being held up
constexpr double kFar = 0.7;       // of the density, a wish that does not wait for a second report
constexpr double kRoom = 1.2;      // of the density, a wish that counts as room
constexpr double kRiseMax = 1.5;   // of the density, in one decision
constexpr int kHeldUpReports = 2;  // until it goes down
constexpr int kRoomyReports = 4;   // until it goes up
constexpr int64_t kRemembered = 50;      // iterations, of a rate that was too high
constexpr size_t kComputingReports = 5;  // of which the median counts
constexpr double kRising = 0.25;         // of the way up to what a report shows
constexpr double kLearning = 0.25;       // the same, of the bytes of an update
constexpr Seconds kShortest{0.01};       // of messages that tell a rate

std::string mbps(BytesPerSecond rate) { return fmt::format("{:.3g} Mbps", rate.value * 8e-6); }
std::string ms(Seconds time) { return fmt::format("{:.3g} ms", time.value * 1e3); }

}  // namespace

RateController::RateController(const Options& options)
    : options_(options), density_(options.density) {
  CHECK(options.lowest > 0 && options.lowest <= options.density &&
            options.density <= options.highest && options.highest <= 1,
        "a density of {} in {} to {}", options.density, options.lowest, options.highest);
  CHECK(options.hides > 0 && options.ahead >= 1, "{} hides, {} ahead", options.hides,
        options.ahead);
}

void RateController::note_rate(const LineReport& report, bool saturated) {
  if (report.in_flight < kShortest || report.came.value <= 0) return;
  const BytesPerSecond seen = report.came / report.in_flight;
  if (rate_.value == 0 || (seen < rate_ && saturated)) {
    rate_ = seen;
  } else {
    rate_ = rate_ + (seen - rate_) * kRising;
  }
}

// Twice in a row, or for long: once may be the machine's fault.
void RateController::note_wait(const LineReport& report) {
  const bool waited = report.waited > report.computing * kHeldUp && report.came.value > 0;
  waits_ = waited ? waits_ + 1 : 0;
  if (options_.late &&
      (waits_ >= kHeldUpReports || (waited && report.waited > report.computing * 0.5))) {
    ceiling_ = report.came / (budget() + report.waited);
    ceiling_until_ = report.iteration + kRemembered;
  }
  if (report.iteration <= ceiling_until_ && (rate_.value == 0 || rate_ > ceiling_))
    rate_ = ceiling_;
}

// Of the density in use alone.
void RateController::note_bytes(const LineReport& report) {
  if (report.came.value <= 0) return;
  const Bytes whole = report.came / density_;
  whole_ = whole_ ? *whole_ + (whole - *whole_) * kLearning : whole;
}

Seconds RateController::budget() const {
  std::vector<Seconds> sorted(computing_.begin(), computing_.end());
  const auto middle = sorted.begin() + static_cast<ptrdiff_t>(sorted.size() / 2);
  std::nth_element(sorted.begin(), middle, sorted.end());
  return *middle * options_.hides;
}

// By equation 6, within the range.
double RateController::wanted() const {
  double density = density_ * kRiseMax;
  if (rate_.value > 0 && whole_)
    density = plan::kExchangeFill * (rate_ * budget()).value / whole_->value;
  return std::clamp(density, options_.lowest, options_.highest);
}

std::optional<DensityDecision> RateController::add(const LineReport& report) {
  computing_.push_back(report.computing);
  if (computing_.size() > kComputingReports) computing_.pop_front();
  const bool saturated =
      report.in_flight > budget() * 0.97 || report.waited > report.computing * kHeldUp;
  note_rate(report, saturated);
  note_wait(report);
  // Behind the first iteration came only what of its update left before it was over.
  if (settled_ == 0) settled_ = report.iteration + 1;
  if (report.iteration < settled_) return std::nullopt;
  note_bytes(report);
  const double density = wanted();
  held_up_ = saturated && density < density_ * 0.95 ? held_up_ + 1 : 0;
  const bool room = !saturated && density > density_ * kRoom;
  room_ = roomy_ > 0 ? std::min(room_, density) : density;
  roomy_ = room ? roomy_ + 1 : 0;
  if (held_up_ >= kHeldUpReports || (held_up_ > 0 && density < density_ * kFar))
    return decide(report, density);
  if (roomy_ >= kRoomyReports) return decide(report, std::min(room_, density_ * kRiseMax));
  return std::nullopt;
}

DensityDecision RateController::decide(const LineReport& report, double density) {
  const double before = density_;
  density_ = std::max(options_.lowest, plan::two_digits_down(density));
  DensityDecision out{.first_iteration = report.iteration + options_.ahead,
                      .before = before,
                      .density = density_,
                      .rate = rate_,
                      .reason = {}};
  // What comes while the first of them computes may be of the one before; and, where updates may be late and
  // the line has fallen behind, while the second does.
  settled_ = out.first_iteration + (options_.late ? 2 : 1);
  held_up_ = roomy_ = 0;
  const std::string computes = fmt::format("the {} that it can hide behind", ms(budget()));
  if (rate_.value == 0 || !whole_) {
    out.reason =
        fmt::format("updates of density {:g} came too quickly to measure the line", before);
    return out;
  }
  const auto takes = [&](double of) { return ms(*whole_ * of / rate_); };
  out.reason = fmt::format(
      "the line carries {}: at density {:g} an exchange takes {} of {}, at "
      "{:g} {}",
      mbps(rate_), before, takes(before), computes, density_, takes(density_));
  return out;
}

}  // namespace tombolo::tune
