// What the environment may say of prompts: any text is refused, or reads back as it is written, and
// the windows of its gaps bear any computations.
#include <cstddef>
#include <cstdint>
#include <string>

#include "base/check.h"
#include "perform/join/run_prompts.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tombolo;
  using namespace tombolo::join;
  const auto prompts = parse_run_prompts(std::string(reinterpret_cast<const char*>(data), size));
  if (!prompts) return 0;
  const std::string text = to_text(*prompts);
  const auto again = parse_run_prompts(text);
  CHECK(again, "written and refused: {}", text);
  CHECK(*again == *prompts || again->gaps.size() < prompts->gaps.size(), "other prompts: {}", text);
  for (const RankGaps& gaps : prompts->gaps) {
    auto windows = windows_of(*prompts, gaps.rank);
    CHECK(windows, "rank {} has gaps and no windows", gaps.rank);
    SimTime now;
    for (const auto& [action, start, end] : gaps.plan.computations) {
      windows->begins(1, action, now);
      now = now + (end - start);
      windows->ends(1, action, now);
      windows->until(now);
    }
  }
  return 0;
}
