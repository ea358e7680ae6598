#include "lab/wanem/impairment.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace tombolo::wanem {

Loss::Loss(double loss, double burst, const Random& random) : random_(random) {
  CHECK(loss >= 0 && loss < 1 && burst >= 1, "a loss of {} in bursts of {}", loss, burst);
  if (loss <= 0) return;
  burst = std::max(burst, 1 / (1 - loss));
  leaves_good_ = loss / (burst * (1 - loss));
  leaves_bad_ = 1 / burst;
  bad_ = random_.uniform() < loss;
  left_ = draw_length();
}

uint64_t Loss::draw_length() {
  const double leaves = bad_ ? leaves_bad_ : leaves_good_;
  if (leaves >= 1) return 1;
  const double uniform = 1 - random_.uniform();  // in (0, 1]: the logarithm is finite
  const double more = std::floor(std::log(uniform) / std::log1p(-leaves));
  return 1 + static_cast<uint64_t>(std::min(more, 1e18));
}

Loss::Run Loss::take(uint32_t most) {
  CHECK(most > 0, "the fate of no segments");
  if (leaves_good_ <= 0) return {most, false};
  const Run run{static_cast<uint32_t>(std::min<uint64_t>(left_, most)), bad_};
  left_ -= run.length;
  if (left_ == 0) {
    bad_ = !bad_;
    left_ = draw_length();
  }
  return run;
}

Jitter::Jitter(SimDuration deviation, const Random& random)
    : deviation_ns_(static_cast<double>(deviation.ns)),
      memory_ns_(std::max(100e6, 20 * deviation_ns_)),
      random_(random) {
  CHECK(deviation.ns >= 0, "a deviation of {} ns", deviation.ns);
}

SimDuration Jitter::at(SimTime instant) {
  if (deviation_ns_ <= 0) return {};
  if (!started_) {
    started_ = true;
    value_ = random_.normal();
  } else if (instant > last_) {
    const double keep = std::exp(-static_cast<double>((instant - last_).ns) / memory_ns_);
    value_ = keep * value_ + std::sqrt(1 - keep * keep) * random_.normal();
  }
  last_ = std::max(last_, instant);
  return {std::llround(value_ * deviation_ns_)};
}

}  // namespace tombolo::wanem
