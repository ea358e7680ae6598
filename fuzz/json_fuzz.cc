// The JSON reader: any bytes give a Value or a message that names a line of the text; what was read
// is written and read back equal, and the second writing gives the same bytes.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "base/json.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto value = tombolo::parse_json(text, "input.json");
  if (!value) {
    const tombolo::Error& error = value.error();
    const auto lines = 1 + std::count(text.begin(), text.end(), '\n');
    CHECK(error.place.line >= 1 && error.place.line <= lines, "line {} of {}", error.place.line,
          lines);
    CHECK(error.message.starts_with(fmt::format("input.json:{}: ", error.place.line)), "{}",
          error.message);
    return 0;
  }
  const std::string json = tombolo::to_json(*value, -1);
  const auto back = tombolo::parse_json(json, "again.json");
  CHECK(back, "{}", back.error().text());
  CHECK(*back == *value, "changed on the way through {}", json);
  CHECK(tombolo::to_json(*back, -1) == json, "written differently the second time: {}", json);
  return 0;
}
