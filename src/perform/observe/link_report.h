// What a rank reports of its links, every second or so.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/time.h"
#include "perform/link/link_statistics.h"

namespace tombolo::observe {

// What waits in front of a link, by what it is (urgency_of): "pipeline", "gradients", "evaluation".
struct ClassQueue {
  std::string urgency;
  uint64_t bytes = 0;
};
struct LinkReport {
  link::LinkStatistics link;
  std::vector<ClassQueue> queue;
  SimDuration silent;  // since anything was heard of the peer
};
// `launcher` is left out: its rank is not one of the Plan's.
std::vector<LinkReport> link_reports(std::vector<link::LinkStatistics> links, int32_t launcher);

}  // namespace tombolo::observe
