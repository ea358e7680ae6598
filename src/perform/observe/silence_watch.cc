#include "perform/observe/silence_watch.h"

#include "spec/plan/rank_name.h"

namespace tombolo::observe {

void SilenceWatch::hear(int32_t rank, SimTime now) {
  const auto [at, is_new] = heard_.insert({rank, {now, now}});
  if (!is_new && now - at->second.last > kAllAlong) at->second.first = now;
  at->second.last = now;
}

bool SilenceWatch::heard_since(int32_t rank, SimTime silent_from) const {
  const auto at = heard_.find(rank);
  if (at == heard_.end()) return false;
  const SimTime certain = silent_from + kHeardAfter;
  return at->second.first <= certain && at->second.last > certain;
}

std::vector<std::string> SilenceWatch::add(int32_t rank, const std::vector<LinkReport>& links,
                                           SimTime now) {
  hear(rank, now);
  std::vector<std::string> lines;
  for (const LinkReport& report : links) {
    const int32_t peer = report.link.peer;
    if (peer < 0 || static_cast<size_t>(peer) >= plan_.ranks.size()) continue;
    if (report.silent < kSilentMax) {
      named_.erase({rank, peer});
      continue;
    }
    if (!named_.insert({rank, peer}).second) continue;
    const SimTime from = now - report.silent;
    const bool both = heard_since(rank, from) && heard_since(peer, from);
    lines.push_back(fmt::format("{} has heard nothing from {} for {:.0f} s{}",
                                plan::rank_name(plan_, rank), plan::rank_name(plan_, peer),
                                seconds(report.silent).value,
                                both ? "; both reach the launcher" : ""));
  }
  return lines;
}

}  // namespace tombolo::observe
