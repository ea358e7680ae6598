#include "perform/observe/progress_watch.h"

#include <algorithm>

#include "perform/observe/silence_watch.h"
#include "spec/plan/rank_name.h"

namespace tombolo::observe {

std::string hang_text(const std::string& rank, const Hang& hang, SimTime now) {
  return fmt::format(
      "{} has made no progress for {:.0f} s (its usual iteration takes {}); its heartbeats "
      "continue",
      rank, seconds(now - hang.since).value, brief(hang.usual));
}

std::optional<std::string> ProgressWatch::add(int32_t rank, const kernels::Activity::Report& report,
                                              SimTime now, std::optional<Seconds> usual) {
  const auto [at, is_new] = seen_.insert({rank, {report.done, now, now, {}}});
  Seen& seen = at->second;
  const bool gap = now - std::exchange(seen.last, now) > kAllAlong;
  if (report.waits || report.done != seen.done) {
    const bool hung = seen.hang.has_value();
    const SimDuration span = now - seen.since;
    seen = {report.done, now, now, {}};
    if (!hung) return std::nullopt;
    return fmt::format("{} makes progress again, after {:.0f} s", plan::rank_name(plan_, rank),
                       seconds(span).value);
  }
  if (seen.hang) return std::nullopt;
  if (gap || !usual) seen.since = now;
  if (!usual) return std::nullopt;
  const SimDuration patience = std::max(kHangMin, round_to_ns(*usual * real(kIterationsMax)));
  if (now - seen.since < patience) return std::nullopt;
  seen.hang = Hang{seen.since, *usual};
  return hang_text(plan::rank_name(plan_, rank), *seen.hang, now);
}

std::optional<Hang> ProgressWatch::hang(int32_t rank) const {
  const auto at = seen_.find(rank);
  return at == seen_.end() ? std::nullopt : at->second.hang;
}

}  // namespace tombolo::observe
