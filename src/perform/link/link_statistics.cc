#include "perform/link/link_statistics.h"

#include <algorithm>

namespace tombolo::link {

int64_t LinkStatistics::pulling() const {
  return std::count_if(connections.begin(), connections.end(),
                       [](const ConnectionStatistics& c) { return c.pulls; });
}

uint64_t LinkStatistics::retransmits() const {
  uint64_t sum = 0;
  for (const ConnectionStatistics& c : connections) sum += c.retransmits;
  return sum;
}

BytesPerSecond LinkStatistics::goodput() const {
  BytesPerSecond sum;
  for (const ConnectionStatistics& c : connections) sum += c.goodput;
  return sum;
}

Seconds LinkStatistics::round_trip() const {
  Seconds sum;
  for (const ConnectionStatistics& c : connections) sum += c.pulls ? c.round_trip : Seconds{};
  return pulling() == 0 ? sum : sum / static_cast<double>(pulling());
}

}  // namespace tombolo::link
