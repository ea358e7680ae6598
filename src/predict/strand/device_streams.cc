#include "predict/strand/device_streams.h"

#include <algorithm>
#include <limits>

#include "base/check.h"

namespace tombolo::strand {

bool DeviceStreams::idle() const {
  return std::all_of(running_.begin(), running_.end(),
                     [](const Running& running) { return running.op < 0; });
}

void DeviceStreams::start(const StrandPair& pair, size_t op, double now) {
  Running& running = running_[static_cast<size_t>(pair[op].stream)];
  CHECK(running.op < 0, "{} starts on a stream that is taken", pair[op].name);
  running = {static_cast<int>(op), pair[op].seconds, now};
}

DeviceStreams::Ended DeviceStreams::advance(const StrandPair& pair, double now) {
  Ended ended;
  if (idle()) return ended;
  std::array<double, kStreams> pace{};
  ended.step = std::numeric_limits<double>::infinity();
  for (size_t a = 0; a < kStreams; ++a) {
    if (running_[a].op < 0) continue;
    pace[a] = 1;
    for (size_t b = 0; b < kStreams; ++b) {
      if (b == a || running_[b].op < 0) continue;
      pace[a] *=
          pair.pace(static_cast<size_t>(running_[a].op), static_cast<size_t>(running_[b].op));
    }
    ended.step = std::min(ended.step, running_[a].left / pace[a]);
  }
  for (size_t a = 0; a < kStreams; ++a) {
    Running& running = running_[a];
    if (running.op < 0) continue;
    // What ends now, ends now: no remainder of rounding lives on.
    if (running.left / pace[a] > ended.step) {
      running.left -= ended.step * pace[a];
      continue;
    }
    ended.runs[ended.count++] = {static_cast<uint8_t>(running.op), running.since, now + ended.step};
    running.op = -1;
  }
  return ended;
}

}  // namespace tombolo::strand
