#include "perform/link/pacer.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/check.h"
#include "perform/link/handshake.h"

namespace tombolo::link {

Status LinkShape::check() const {
  if (rate && !(std::isfinite(rate->value) && rate->value >= 1))
    return unusable(fmt::format("a link cannot be paced at {}", format(*rate)),
                    "give at least 8 bits per second, such as \"1 Gbps\", or no rate");
  constexpr int64_t kDelayMax = 3'600'000'000'000;  // an hour: beyond the Moon, below an overflow
  if (delay.ns < 0 || delay.ns > kDelayMax)
    return unusable(fmt::format("a link cannot have a delay of {}", format(seconds(delay))),
                    "give a one-way delay such as \"20 ms\"");
  if (connections < 1 || connections > kConnectionsMax)
    return unusable(fmt::format("a link cannot have {} connections", connections),
                    fmt::format("1 to {}", kConnectionsMax));
  return {};
}

uint32_t LinkShape::segment_max() const {
  if (!rate) return kFramePayloadMax;
  const double millisecond = rate->value * 1e-3;
  return static_cast<uint32_t>(
      std::clamp(millisecond, 16.0 * 1024, static_cast<double>(kFramePayloadMax)));
}

Pacer::Pacer(BytesPerSecond rate) : rate_(rate), busy_until_{std::numeric_limits<int64_t>::min()} {
  CHECK(rate.value > 0, "a link of {} B/s", rate.value);
}

Slot Pacer::take(SimTime available, uint64_t bytes) {
  if (available > busy_until_) {
    busy_since_ = busy_until_ = available;
    busy_bytes_ = 0;
  }
  const SimTime begin = busy_until_;
  busy_bytes_ += bytes;
  busy_until_ = busy_since_ + round_to_ns(Bytes{static_cast<double>(busy_bytes_)} / rate_);
  return {begin, busy_until_};
}

SimTime delivery(SimTime departed, SimTime arrived, SimDuration delay) {
  return std::max(departed + delay, arrived);
}

}  // namespace tombolo::link
