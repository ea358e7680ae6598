// Traces: any bytes give a Trace or a message; what was read is written and read back equal, and
// the second writing gives the same bytes.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "spec/trace/trace_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto trace = tombolo::trace::parse_trace(text, "input.jsonl");
  if (!trace) {
    CHECK(!trace.error().message.empty(), "refused without a word");
    return 0;
  }
  const std::string lines = tombolo::trace::to_json_lines(*trace);
  const auto back = tombolo::trace::parse_trace(lines, "again.jsonl");
  CHECK(back, "{}", back.error().text());
  CHECK(*back == *trace, "changed on the way through {}", lines);
  CHECK(tombolo::trace::to_json_lines(*back) == lines, "written differently the second time: {}",
        lines);
  return 0;
}
