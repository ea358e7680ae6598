#include "perform/link/goodput.h"

#include <algorithm>

#include "perform/link/frame.h"

namespace tombolo::link {
namespace {

constexpr SimDuration kSample{20'000'000};
constexpr double kMemory = 0.1;        // seconds over which the rate is a mean
constexpr double kAhead = 0.015;       // seconds of the rate that the kernel may hold unsent
constexpr double kLeast = 8 * 1024;    // bytes
constexpr double kMarkMax = 16 << 20;  // bytes

}  // namespace

bool GoodputMeter::due(SimTime now) const { return !since_ || now - *since_ >= kSample; }

void GoodputMeter::pause() {
  since_.reset();
  silent_ = true;
}

void GoodputMeter::sample(SimTime now, uint64_t acknowledged) {
  if (!due(now)) return;
  if (since_ && acknowledged != acknowledged_) silent_ = false;
  if (since_ && !silent_) {
    const double span = seconds(now - *since_).value;
    const double rate = static_cast<double>(acknowledged - acknowledged_) / span;
    const double weight = rate_.value == 0 ? 1 : span / (span + kMemory);
    rate_.value += weight * (rate - rate_.value);
  }
  since_ = now;
  acknowledged_ = acknowledged;
}

Commitment commitment(const LinkRates& rates, BytesPerSecond connection) {
  const double share = rates.link.value * kAhead / rates.connections;
  const double segment = std::clamp(share / 2, kLeast, static_cast<double>(kFramePayloadMax));
  const double mark = std::clamp(connection.value * kAhead, kLeast, kMarkMax);
  Commitment out{static_cast<uint32_t>(segment), static_cast<uint32_t>(mark)};
  if (connection.value < rates.best.value / 4)
    out.tail = uint64_t{2} * rates.connections * out.segment_max;
  return out;
}

}  // namespace tombolo::link
