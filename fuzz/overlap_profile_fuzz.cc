// Overlap profiles: arbitrary text is refused with its place, or is a profile that reads back equal
// and gives paces that end.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "predict/strand/overlap_profile.h"

using namespace tombolo;
using namespace tombolo::strand;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto profile = parse_profile(text, "fuzz.csv");
  if (!profile) {
    CHECK(profile.error().text().find("fuzz.csv") != std::string::npos,
          "a message without its file: {}", profile.error().text());
    return 0;
  }
  const auto again = parse_profile(to_csv(*profile), "again.csv");
  CHECK(again && *again == *profile, "what was written does not read");
  OverlapTable table;
  apply_pairs(*profile, table);
  for (const ProfileRow& row : profile->rows) {
    if (row.second.empty()) continue;
    const Pace pace = pace_of_times(row.microseconds, row.error());
    CHECK(pace.first > 0 && pace.first <= 1 && pace.second > 0 && pace.second <= 1,
          "paces of {} and {}", pace.first, pace.second);
  }
  return 0;
}
