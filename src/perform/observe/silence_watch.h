// Names links that are silent for long, while the launcher hears from both ends.
//
// A path between two workers may be cut although both reach the launcher: then no lease expires, no
// rank is lost, and the run waits. The ranks' reports of their links, every second, show which link
// it is.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/time.h"
#include "perform/observe/link_report.h"
#include "spec/plan/plan.h"

namespace tombolo::observe {

// Longer than any pause of a link whose ends send heartbeats, shorter than a person's patience.
inline constexpr SimDuration kSilentMax{5'000'000'000};

// A cut that isolates a whole datacenter silences its links and its connections to the launcher
// together, except for messages in transit; and when it ends, all reports of that time arrive at
// once. So a rank is said to reach the launcher only if its reports arrived without a gap until
// this long after its link fell silent.
inline constexpr SimDuration kHeardAfter{2'000'000'000};
inline constexpr SimDuration kAllAlong{4'000'000'000};  // between two reports at most

class SilenceWatch {
 public:
  explicit SilenceWatch(const plan::Plan& plan) : plan_(plan) {}

  // Adds what `rank` reports now. Returns lines for people, one per link that has become silent; a
  // link is named again only after something was received on it in between.
  std::vector<std::string> add(int32_t rank, const std::vector<LinkReport>& links, SimTime now);

 private:
  struct Heard {
    SimTime first, last;  // of reports without a gap
  };
  void hear(int32_t rank, SimTime now);
  bool heard_since(int32_t rank, SimTime silent_from) const;

  const plan::Plan& plan_;
  std::map<int32_t, Heard> heard_;  // by rank
  std::set<std::pair<int32_t, int32_t>> named_;
};

}  // namespace tombolo::observe
