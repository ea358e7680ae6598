#include "spec/trace/trace.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "base/check.h"
#include "base/quantiles.h"

namespace tombolo::trace {

bool has_replicas(const Header& header) {
  return std::any_of(header.ranks.begin(), header.ranks.end(),
                     [](const RankLabel& label) { return label.replica > 0; });
}

std::string to_text(const Origin& origin) {
  if (const auto* part = std::get_if<PassPart>(&origin)) return action::to_text(part->pass);
  if (const auto* part = std::get_if<GraphPart>(&origin)) return part->name;
  return {};
}

void normalize(Trace& trace) {
  // What nearly always tells intervals apart is sorted, and each of them moved once.
  struct Key {
    SimTime start;
    Lane lane;
    int32_t rank, peer;
    uint32_t index;
  };
  std::vector<Interval>& intervals = trace.intervals;
  CHECK(intervals.size() < UINT32_MAX, "{} intervals", intervals.size());
  std::vector<Key> keys;
  keys.reserve(intervals.size());
  for (const Interval& each : intervals) {
    keys.push_back(
        {each.start, each.lane, each.rank, each.peer, static_cast<uint32_t>(keys.size())});
  }
  std::sort(keys.begin(), keys.end(), [&](const Key& a, const Key& b) {
    if (a.start != b.start) return a.start < b.start;
    if (const auto order = std::tie(a.lane, a.rank, a.peer) <=> std::tie(b.lane, b.rank, b.peer);
        order != 0)
      return order < 0;
    const Interval &x = intervals[a.index], &y = intervals[b.index];
    return std::tie(x.end, x.action, x.origin, x.part) <
           std::tie(y.end, y.action, y.origin, y.part);
  });
  std::vector<Interval> sorted;
  sorted.reserve(intervals.size());
  for (const Key& key : keys) sorted.push_back(std::move(intervals[key.index]));
  intervals = std::move(sorted);
  std::stable_sort(trace.records.begin(), trace.records.end(), [](const auto& a, const auto& b) {
    return std::tie(a.iteration, a.name, a.rank) < std::tie(b.iteration, b.name, b.rank);
  });
}

std::vector<IterationTime> iteration_times(const Trace& trace) {
  std::map<int64_t, IterationTime> by_iteration;
  for (const Interval& interval : trace.intervals) {
    if (interval.iteration <= 0) continue;
    CHECK(interval.end >= interval.start, "rank {} is at work from {} to {} ns", interval.rank,
          interval.start.ns, interval.end.ns);
    const auto [it, is_new] = by_iteration.try_emplace(
        interval.iteration, IterationTime{interval.iteration, interval.start, interval.end});
    it->second.start = std::min(it->second.start, interval.start);
    it->second.end = std::max(it->second.end, interval.end);
  }
  std::vector<IterationTime> out;
  for (auto& [iteration, time] : by_iteration) {
    time.cycle = trace.header.cycle;
    out.push_back(time);
  }
  if (!trace.header.overlaps) return out;
  for (size_t i = 0; i + 1 < out.size(); ++i) out[i].end = out[i + 1].start;
  if (!out.empty()) out.front().steady = out.back().steady = false;
  return out;
}

size_t late_turns(size_t iterations, int64_t cycle) {
  CHECK(cycle >= 1, "turns of {} iterations", cycle);
  const auto length = static_cast<size_t>(cycle);
  const size_t turns = iterations / length;
  if (cycle == 1 || turns == 0) return iterations;
  constexpr size_t kEarly = 2;
  return (turns > kEarly ? turns - kEarly : 1) * length;
}

std::vector<IterationTime> counting(std::vector<IterationTime> times) {
  const auto is_steady = [](const IterationTime& time) { return time.steady; };
  if (std::any_of(times.begin(), times.end(), is_steady)) {
    std::erase_if(times, [](const IterationTime& time) { return !time.steady; });
  } else if (times.size() > 1) {
    times.pop_back();
  }
  if (times.empty()) return times;
  const size_t count = late_turns(times.size(), times.front().cycle);
  times.erase(times.begin(), times.end() - static_cast<std::ptrdiff_t>(count));
  return times;
}

SimDuration median_iteration(const std::vector<IterationTime>& times) {
  if (times.empty()) return {};
  const auto mean = [](const std::vector<IterationTime>& all) {
    return SimDuration{(all.back().end - all.front().start).ns / std::ssize(all)};
  };
  // Without a whole period: what all take together, shared out.
  const auto is_steady = [](const IterationTime& time) { return time.steady; };
  if (times.size() > 1 && std::none_of(times.begin(), times.end(), is_steady)) return mean(times);
  if (times.front().cycle > 1) return mean(counting(times));
  std::vector<SimDuration> spans;
  for (const IterationTime& time : counting(times)) {
    CHECK(time.end >= time.start, "iteration {} lasts from {} to {} ns", time.iteration,
          time.start.ns, time.end.ns);
    spans.push_back(time.end - time.start);
  }
  return median(std::move(spans));
}

}  // namespace tombolo::trace
