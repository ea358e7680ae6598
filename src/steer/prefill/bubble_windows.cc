#include "steer/prefill/bubble_windows.h"

#include <algorithm>
#include <map>
#include <variant>

#include "base/check.h"
#include "base/quantiles.h"

namespace tombolo::prefill {

bool takes_gpu(const trace::Interval& interval) {
  if (interval.iteration < 1 || interval.start == interval.end) return false;
  return interval.lane == trace::Lane::kCompute ||
         std::holds_alternative<trace::PassPart>(interval.origin);
}

namespace {

// The beginning of each rank's computations in an iteration.
std::map<int32_t, SimTime> begins_of(const trace::Trace& trace, int64_t iteration) {
  std::map<int32_t, SimTime> begins;
  for (const trace::Interval& interval : trace.intervals) {
    if (!takes_gpu(interval) || interval.iteration != iteration) continue;
    const auto [known, first] = begins.emplace(interval.rank, interval.start);
    if (!first) known->second = std::min(known->second, interval.start);
  }
  return begins;
}

}  // namespace

Busy folded(const std::vector<Span>& spans, SimTime origin, SimDuration period) {
  Busy parts;
  for (const Span& span : spans) {
    const int64_t begin = span.start.ns - origin.ns, end = span.end.ns - origin.ns;
    CHECK(begin >= 0 && end - begin <= period.ns, "a computation of {} ns in a period of {}",
          end - begin, period.ns);
    for (int64_t at = begin; at < end;) {
      const int64_t edge = (at / period.ns + 1) * period.ns;
      const int64_t stop = std::min(end, edge);
      parts.push_back({{at % period.ns}, {stop - edge + period.ns}});
      at = stop;
    }
  }
  std::sort(parts.begin(), parts.end(),
            [](const Span& a, const Span& b) { return a.start < b.start; });
  Busy busy;
  for (const Span& part : parts) {
    if (!busy.empty() && part.start <= busy.back().end) {
      busy.back().end = std::max(busy.back().end, part.end);
    } else {
      busy.push_back(part);
    }
  }
  return busy;
}

double Bubbles::utilization() const {
  int64_t taken = 0;
  for (const Busy& each : busy) {
    for (const Span& span : each) taken += span.length().ns;
  }
  const double all = real(period.ns) * real(std::ssize(busy));
  return all > 0 ? real(taken) / all : 0;
}

Result<Period> period_of(const trace::Trace& trace) {
  int64_t last = 0;
  for (const trace::Interval& interval : trace.intervals) {
    if (takes_gpu(interval)) last = std::max(last, interval.iteration);
  }
  if (last == 0) return unusable("the Trace has no computation: there are no gaps between any");
  const std::map<int32_t, SimTime> next = begins_of(trace, last);
  std::map<int32_t, SimTime> here = begins_of(trace, last - 1);
  Period period{.iteration = here.empty() ? last : last - 1};
  if (here.empty()) here = next;
  period.origin = here.begin()->second;
  for (const auto& [rank, begin] : here) period.origin = std::min(period.origin, begin);
  for (const trace::Interval& interval : trace.intervals) {
    if (period.iteration < last || !takes_gpu(interval) || interval.iteration != last) continue;
    period.length = std::max(period.length, interval.end - period.origin);
  }
  for (const auto& [rank, begin] : here) {
    const auto again = next.find(rank);
    if (again == next.end()) continue;
    period.length = std::max(period.length, again->second - begin);
  }
  if (period.length.ns <= 0) return unusable("the computations of the Trace take no time");
  return period;
}

Result<Bubbles> bubbles_of(const trace::Trace& trace) {
  const Period period = TRY(period_of(trace));
  size_t ranks = trace.header.ranks.size();
  for (const trace::Interval& interval : trace.intervals) {
    if (takes_gpu(interval)) ranks = std::max(ranks, static_cast<size_t>(interval.rank) + 1);
  }
  std::vector<std::vector<Span>> spans(ranks);
  for (const trace::Interval& interval : trace.intervals) {
    if (!takes_gpu(interval) || interval.iteration != period.iteration) continue;
    spans[static_cast<size_t>(interval.rank)].push_back({interval.start, interval.end});
  }
  Bubbles bubbles{.period = period.length, .busy = {}};
  for (const std::vector<Span>& each : spans) {
    bubbles.busy.push_back(folded(each, period.origin, period.length));
  }
  return bubbles;
}

std::vector<Span> gaps_of(const Busy& busy, SimDuration period) {
  if (busy.empty()) return {{{0}, {period.ns}}};
  std::vector<Span> gaps;
  for (size_t i = 0; i < busy.size(); ++i) {
    const SimTime end = i + 1 < busy.size() ? busy[i + 1].start : busy[0].start + period;
    if (busy[i].end < end) gaps.push_back({busy[i].end, end});
  }
  // One that begins where the period ends begins where the next one does.
  if (!gaps.empty() && gaps.back().start.ns >= period.ns) {
    const Span first{gaps.back().start - period, gaps.back().end - period};
    gaps.pop_back();
    gaps.insert(gaps.begin(), first);
  }
  return gaps;
}

GapLengths gap_lengths(const Bubbles& bubbles) {
  std::vector<double> lengths;
  double idle = 0;
  for (const Busy& busy : bubbles.busy) {
    for (const Span& gap : gaps_of(busy, bubbles.period)) {
      lengths.push_back(real(gap.length().ns));
      idle += lengths.back();
    }
  }
  GapLengths out;
  out.gaps = std::ssize(lengths);
  out.idle_share = 1 - bubbles.utilization();
  if (lengths.empty()) return out;
  const auto at = [&](double share) {
    return SimDuration{static_cast<int64_t>(quantile(lengths, share))};
  };
  out.p10 = at(0.1);
  out.p50 = at(0.5);
  out.p90 = at(0.9);
  std::sort(lengths.rbegin(), lengths.rend());
  out.longest = {static_cast<int64_t>(lengths[0])};
  double sum = 0;
  for (const double length : lengths) {
    sum += length;
    out.half_of_idle = {static_cast<int64_t>(length)};
    if (sum >= idle / 2) break;
  }
  return out;
}

}  // namespace tombolo::prefill
