#include "spec/trace/breakdown.h"

#include <algorithm>
#include <map>

#include "base/check.h"

namespace tombolo::trace {
namespace {

Parts of_all(const Parts& parts, int64_t n) {
  return {parts.compute * n, parts.exposed_communication * n, parts.idle * n};
}

using Spans = std::vector<std::pair<SimTime, SimTime>>;

struct Busy {
  Spans compute;
  Spans communication;  // links from or to this rank, and its part in collectives
  Spans sums;           // of gradients: part of that
  Spans prompts;
};
using BusyRanks = std::map<std::pair<int64_t, int32_t>, Busy>;  // by iteration and rank

void add_busy(const Interval& interval, int64_t iteration, const std::pair<SimTime, SimTime>& span,
              BusyRanks& busy) {
  Busy& own = busy[{iteration, interval.rank}];
  if (interval.lane == Lane::kCompute || interval.lane == Lane::kHost) {
    own.compute.push_back(span);
    return;
  }
  own.communication.push_back(span);
  const bool sum = interval.action.kind == action::ActionKind::kReduceGradients;
  if (sum && interval.lane == Lane::kCollective) own.sums.push_back(span);
  if (interval.peer >= 0) busy[{iteration, interval.peer}].communication.push_back(span);
}

// Calls add(iteration, span) for what of the interval lies in each iteration.
template <class Add>
void cut(const Interval& interval, const std::vector<IterationTime>& times, const Add& add) {
  auto time = std::partition_point(times.begin(), times.end(), [&](const IterationTime& each) {
    return each.end <= interval.start;
  });
  for (; time != times.end() && time->start < interval.end; ++time) {
    add(time->iteration,
        std::pair(std::max(time->start, interval.start), std::min(time->end, interval.end)));
  }
}

void add_prompts(const Trace& trace, const std::vector<IterationTime>& times, BusyRanks& busy) {
  for (const Interval& interval : trace.intervals) {
    if (interval.action.kind != action::ActionKind::kPrompt) continue;
    cut(interval, times, [&](int64_t iteration, const std::pair<SimTime, SimTime>& span) {
      busy[{iteration, interval.rank}].prompts.push_back(span);
    });
  }
}

// Each interval in its own iteration; or, cut, in all that it reaches into.
BusyRanks busy_ranks(const Trace& trace, const std::vector<IterationTime>& times) {
  BusyRanks busy;
  const bool overlap = trace.header.overlaps;
  for (const Interval& interval : trace.intervals) {
    if (interval.iteration <= 0) continue;
    if (!overlap) {
      add_busy(interval, interval.iteration, {interval.start, interval.end}, busy);
      continue;
    }
    cut(interval, times, [&](int64_t iteration, const std::pair<SimTime, SimTime>& span) {
      add_busy(interval, iteration, span, busy);
    });
  }
  add_prompts(trace, times, busy);
  return busy;
}

RankParts row_of(const IterationTime& time, int32_t rank, Busy busy) {
  Spans both = busy.compute;
  both.insert(both.end(), busy.prompts.begin(), busy.prompts.end());
  const TimeSet compute(std::move(busy.compute));
  const TimeSet computed_at_all(std::move(both));
  const TimeSet communication(std::move(busy.communication));
  RankParts row{.iteration = time.iteration, .rank = rank};
  row.parts.compute = compute.measure();
  row.parts.exposed_communication = communication.measure_outside(compute);
  row.parts.idle = (time.end - time.start) - row.parts.compute - row.parts.exposed_communication;
  row.exposed_exchange = TimeSet(std::move(busy.sums)).measure_outside(compute);
  row.prompts_exposed =
      row.parts.exposed_communication - communication.measure_outside(computed_at_all);
  row.prompts_idle = computed_at_all.measure() - row.parts.compute - row.prompts_exposed;
  return row;
}

// The iterations that stand for all others: whole turns, from the first on; without one, all.
int64_t in_whole_turns(const Trace& trace, int64_t iterations) {
  const int64_t cycle = std::max<int64_t>(1, trace.header.cycle);
  return iterations >= cycle ? iterations - iterations % cycle : iterations;
}

std::vector<WanUse> wan_use(const Trace& trace, const std::vector<IterationTime>& times) {
  const int64_t counted = in_whole_turns(trace, std::ssize(times));
  const int64_t last = times[static_cast<size_t>(counted - 1)].iteration;
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
    if (interval.iteration <= last)
      use.bytes_per_iteration += Bytes{static_cast<double>(interval.bytes)};
    spans.emplace_back(interval.start, interval.end);
  }
  std::vector<WanUse> out;
  for (auto& [ends, entry] : uses) {
    auto& [use, spans] = entry;
    use.bytes_per_iteration = use.bytes_per_iteration / static_cast<double>(counted);
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
  std::map<int32_t, int64_t> ranks;  // and how many each stands for
  for (const RankLabel& label : trace.header.ranks) ranks[label.rank] = label.stands_for;
  for (const Interval& interval : trace.intervals) {
    if (interval.iteration <= 0) continue;
    ranks.try_emplace(interval.rank, 1);
    if (interval.lane != Lane::kCompute && interval.peer >= 0) ranks.try_emplace(interval.peer, 1);
  }
  Breakdown out;
  SimDuration prompts;
  int64_t rows = 0;  // of all ranks
  const std::vector<IterationTime> times = iteration_times(trace);
  BusyRanks busy = busy_ranks(trace, times);
  for (const IterationTime& time : times) {
    for (const auto& [rank, stands_for] : ranks) {
      const RankParts& row =
          out.rows.emplace_back(row_of(time, rank, std::move(busy[{time.iteration, rank}])));
      out.sum += of_all(row.parts, stands_for);
      out.exposed_exchange += row.exposed_exchange * stands_for;
      prompts += row.prompts() * stands_for;
      rows += stands_for;
    }
  }
  if (rows > 0) out.exposed_exchange.ns /= rows;
  if (out.sum.total().ns > 0) {
    out.utilization = seconds(out.sum.compute) / seconds(out.sum.total());
    out.utilization_with_prompts = seconds(out.sum.compute + prompts) / seconds(out.sum.total());
  }
  if (!times.empty()) out.wan = wan_use(trace, times);
  return out;
}

}  // namespace tombolo::trace
