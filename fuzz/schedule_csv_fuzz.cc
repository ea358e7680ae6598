// Schedules as CSV: any bytes give a schedule or a message; one that was read is written and read
// back equal, and is either sound for a small shape or said to be broken.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "spec/schedule/schedule_csv.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tombolo::schedule;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto schedule = parse_csv(text, "input.csv");
  CHECK(schedule || !schedule.error().message.empty(), "refused without a word");
  if (!schedule) return 0;
  const std::string written = to_csv(*schedule, CsvContent::kEverything);
  const auto back = parse_csv(written, "input.csv");
  CHECK(back && *back == *schedule, "changed on the way through {}", written);
  using enum tombolo::layout::ScheduleKind;
  for (const auto kind : {k1F1B, kInterleaved, kZbV}) {
    const auto sound = validate(*schedule, shape_for(kind, 2, 2));
    CHECK(sound || !sound.error().message.empty(), "refused without a word");
  }
  return 0;
}
