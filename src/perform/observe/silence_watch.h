// Silence: links on which a rank has heard nothing for long, while its launcher hears both ends.
//
// A path between two workers may be cut although both reach the launcher: then no lease ends and
// nobody is lost, and the run waits. What each rank reports of its links every second names it.
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

// Longer than any pause of a link whose ends beat, shorter than a person's patience.
inline constexpr SimDuration kSilentMax{5'000'000'000};

// A cut that takes a whole datacenter off silences link and launcher together, but for what was on
// its way; and when it is over, what was reported meanwhile comes all at once. So only who was
// heard all along, and for so long after its link fell silent, is said to reach the launcher.
inline constexpr SimDuration kHeardAfter{2'000'000'000};
inline constexpr SimDuration kAllAlong{4'000'000'000};  // between two reports at most

class SilenceWatch {
 public:
  explicit SilenceWatch(const plan::Plan& plan) : plan_(plan) {}

  // What `rank` reports now. Lines for people, one per link that has become silent; a link is named
  // again only after it was heard in between.
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
