// Request traces: arbitrary text is refused with its place, or is requests in the order of their
// arrival, with tokens that can be counted.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "predict/prefill_sim/request_trace.h"

using namespace tombolo;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto requests = prefill_sim::parse_request_trace(text, "fuzz.csv");
  if (!requests) {
    CHECK(requests.error().text().find("fuzz.csv") != std::string::npos,
          "a message without its file: {}", requests.error().text());
    return 0;
  }
  CHECK(!requests->empty() && requests->front().arrival.ns == 0, "a trace that does not begin");
  SimTime before;
  for (const prefill_sim::TracedRequest& request : *requests) {
    CHECK(request.arrival >= before && request.prompt_tokens >= 1 && request.output_tokens >= 0,
          "a request of {} tokens at {} ns", request.prompt_tokens, request.arrival.ns);
    before = request.arrival;
  }
  return 0;
}
