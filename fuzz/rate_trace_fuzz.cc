// Rate traces: arbitrary text is refused with its place, or is a trace that reads back equal and
// whose bytes all leave.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "spec/cluster/rate_trace.h"

using namespace tombolo;
using namespace tombolo::cluster;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto trace = parse_rate_trace(text, "fuzz.csv");
  if (!trace) {
    CHECK(trace.error().message.find("fuzz.csv") != std::string::npos ||
              trace.error().text().find("fuzz.csv") != std::string::npos,
          "a message without its file: {}", trace.error().text());
    return 0;
  }
  const auto again = parse_rate_trace(to_csv(*trace), "again.csv");
  CHECK(again && again->steps().size() == trace->steps().size(), "what was written does not read");
  const SimDuration start = trace->steps().back().start;
  const SimDuration end = trace->finish(start, trace->mean().value);
  CHECK(end >= start && trace->bytes_between(start, end) >= 0, "bytes that flow back");
  return 0;
}
