#include "spec/trace/breakdown.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/check.h"

namespace tombolo::trace {
namespace {

using Spans = std::vector<std::pair<SimTime, SimTime>>;

struct Busy {
  Spans compute;
  Spans communication;  // links from or to this rank, and its part in collectives
};

std::vector<WanUse> wan_use(const Trace& trace, const std::vector<IterationTime>& times) {
  std::map<int32_t, std::string> datacenter;
  for (const RankLabel& label : trace.header.ranks) datacenter[label.rank] = label.datacenter;
  std::map<std::pair<std::string, std::string>, std::pair<WanUse, Spans>> uses;
  for (const Interval& interval : trace.intervals) {
    if (interval.lane != Lane::kLink || interval.iteration <= 0) continue;
    const std::string& from = datacenter[interval.rank];
    const std::string& to = datacenter[interval.peer];
    if (from.empty() || to.empty() || from == to) continue;
    auto& [use, spans] = uses[{from, to}];
    use.from = from;
    use.to = to;
    ++use.messages;
    use.bytes += interval.bytes;
    spans.emplace_back(interval.start, interval.end);
  }
  std::vector<WanUse> out;
  for (auto& [ends, entry] : uses) {
    auto& [use, spans] = entry;
    SimTime start = times.front().start;
    SimTime end = times.front().end;
    for (const IterationTime& time : times) {
      start = std::min(start, time.start);
      end = std::max(end, time.end);
    }
    use.busy = TimeSet(std::move(spans)).measure();
    if (end > start) {
      use.busy_fraction = seconds(use.busy) / seconds(end - start);
      use.rate = Bytes{static_cast<double>(use.bytes)} / seconds(end - start);
    }
    out.push_back(std::move(use));
  }
  return out;
}

}  // namespace

Parts& Parts::operator+=(const Parts& other) {
  compute += other.compute;
  exposed_communication += other.exposed_communication;
  idle += other.idle;
  return *this;
}

TimeSet::TimeSet(Spans spans) {
  std::sort(spans.begin(), spans.end());
  for (const auto& [start, end] : spans) {
    CHECK(end >= start, "a span from {} to {} ns", start.ns, end.ns);
    if (end == start) continue;
    if (spans_.empty() || start > spans_.back().second) {
      spans_.emplace_back(start, end);
    } else {
      spans_.back().second = std::max(spans_.back().second, end);
    }
  }
}

SimDuration TimeSet::measure() const {
  SimDuration sum;
  for (const auto& [start, end] : spans_) sum += end - start;
  return sum;
}

SimDuration TimeSet::measure_outside(const TimeSet& other) const {
  SimDuration sum = measure();
  size_t j = 0;
  for (const auto& [start, end] : spans_) {
    while (j < other.spans_.size() && other.spans_[j].second <= start) ++j;
    for (size_t k = j; k < other.spans_.size() && other.spans_[k].first < end; ++k) {
      sum = sum - (std::min(end, other.spans_[k].second) - std::max(start, other.spans_[k].first));
    }
  }
  return sum;
}

Breakdown breakdown(const Trace& trace) {
  std::set<int32_t> ranks;
  for (const RankLabel& label : trace.header.ranks) ranks.insert(label.rank);
  std::map<std::pair<int64_t, int32_t>, Busy> busy;  // by (iteration, rank)
  for (const Interval& interval : trace.intervals) {
    if (interval.iteration <= 0) continue;
    const std::pair span{interval.start, interval.end};
    ranks.insert(interval.rank);
    Busy& own = busy[{interval.iteration, interval.rank}];
    if (interval.lane == Lane::kCompute || interval.lane == Lane::kHost) {
      own.compute.push_back(span);
      continue;
    }
    own.communication.push_back(span);
    if (interval.peer >= 0) {
      ranks.insert(interval.peer);
      busy[{interval.iteration, interval.peer}].communication.push_back(span);
    }
  }
  Breakdown out;
  const std::vector<IterationTime> times = iteration_times(trace);
  for (const IterationTime& time : times) {
    for (const int32_t rank : ranks) {
      Busy& own = busy[{time.iteration, rank}];
      const TimeSet compute(std::move(own.compute));
      Parts parts;
      parts.compute = compute.measure();
      parts.exposed_communication = TimeSet(std::move(own.communication)).measure_outside(compute);
      parts.idle = (time.end - time.start) - parts.compute - parts.exposed_communication;
      out.sum += parts;
      out.rows.push_back({time.iteration, rank, parts});
    }
  }
  if (out.sum.total().ns > 0) {
    out.utilization = seconds(out.sum.compute) / seconds(out.sum.total());
  }
  if (!times.empty()) out.wan = wan_use(trace, times);
  return out;
}

}  // namespace tombolo::trace
