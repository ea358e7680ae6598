// The TOML reader: any bytes give a Value or a message, and what was read survives the way through
// JSON, which is how Plans embed what people wrote.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "base/json.h"
#include "base/toml.h"

namespace {

using tombolo::Value;

// JSON has no infinities; to_json writes null for them.
Value without_infinities(Value value) {
  if (const double* number = value.get<double>()) return std::isfinite(*number) ? value : Value();
  if (Value::Array* array = value.get<Value::Array>()) {
    for (Value& item : *array) item = without_infinities(std::move(item));
  }
  if (Value::Table* table = value.get<Value::Table>()) {
    for (auto& [key, item] : *table) item = without_infinities(std::move(item));
  }
  return value;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto value = tombolo::parse_toml(text, "input.toml");
  if (!value) {
    CHECK(value.error().message.starts_with("input.toml:"), "{}", value.error().message);
    return 0;
  }
  const std::string json = tombolo::to_json(*value);
  const auto back = tombolo::parse_json(json, "input.json");
  CHECK(back, "{}", back.error().text());
  CHECK(*back == without_infinities(*value), "changed on the way through {}", json);
  return 0;
}
