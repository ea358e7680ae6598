#include "trace/trace_csv.h"

namespace tombolo::trace {

std::string to_csv(const Trace& trace) {
  std::string out =
      "provenance,iteration,lane,rank,peer,stage,kind,microbatch,start_ns,end_ns,bytes\n";
  const auto or_empty = [](int32_t number) {
    return number < 0 ? std::string() : fmt::format("{}", number);
  };
  for (const Interval& interval : trace.intervals) {
    out += fmt::format("{},{},{},{},{},{},{},{},{},{},{}\n", to_name(trace.header.provenance),
                       interval.iteration, to_name(interval.lane), interval.rank,
                       or_empty(interval.peer), interval.action.stage,
                       to_name(interval.action.kind), or_empty(interval.action.microbatch),
                       interval.start.ns, interval.end.ns, interval.bytes);
  }
  return out;
}

}  // namespace tombolo::trace
