#include <algorithm>

#include "base/csv.h"
#include "spec/trace/trace_file.h"

namespace tombolo::trace {
std::string to_csv(const Trace& trace) {
  const bool named = std::any_of(trace.intervals.begin(), trace.intervals.end(),
                                 [](const Interval& i) { return !to_text(i.origin).empty(); });
  std::string out = fmt::format(
      "provenance,iteration,lane,rank,peer,stage,kind,microbatch,start_ns,end_ns,bytes{}\n",
      named ? ",name" : "");
  const auto or_empty = [](int32_t number) {
    return number < 0 ? std::string() : fmt::format("{}", number);
  };
  for (const Interval& interval : trace.intervals) {
    out += fmt::format("{},{},{},{},{},{},{},{},{},{},{}{}{}\n", to_name(trace.header.provenance),
                       interval.iteration, to_name(interval.lane), interval.rank,
                       or_empty(interval.peer), interval.action.stage,
                       to_name(interval.action.kind), or_empty(interval.action.microbatch),
                       interval.start.ns, interval.end.ns, interval.bytes, named ? "," : "",
                       named ? csv_quoted(to_text(interval.origin)) : "");
  }
  return out;
}

}  // namespace tombolo::trace
