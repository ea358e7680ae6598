// The JSON reader: any bytes give a Value or a message; what was read is written and read back
// equal, and the second writing gives the same bytes.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "base/json.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto value = tombolo::parse_json(text, "input.json");
  if (!value) {
    CHECK(value.error().message.starts_with("input.json:1: "), "{}", value.error().message);
    return 0;
  }
  const std::string json = tombolo::to_json(*value, -1);
  const auto back = tombolo::parse_json(json, "again.json");
  CHECK(back, "{}", back.error().text());
  CHECK(*back == *value, "changed on the way through {}", json);
  CHECK(tombolo::to_json(*back, -1) == json, "written differently the second time: {}", json);
  return 0;
}
