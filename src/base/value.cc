#include "base/value.h"

#include "base/check.h"

namespace tombolo {

const Value* Value::find(std::string_view key) const {
  const Table* table = get<Table>();
  if (!table) return nullptr;
  for (const auto& [name, value] : *table) {
    if (name == key) return &value;
  }
  return nullptr;
}

void Value::set(std::string key, Value value) {
  Table* table = get<Table>();
  CHECK(table, "set(\"{}\") on {}", key, kind());
  for (auto& [name, old] : *table) {
    if (name == key) {
      old = std::move(value);
      return;
    }
  }
  table->emplace_back(std::move(key), std::move(value));
}

const char* Value::kind() const {
  constexpr const char* kKinds[] = {"nothing", "true or false", "a whole number", "a number",
                                    "a text",  "a list",        "a table"};
  return kKinds[data_.index()];
}

}  // namespace tombolo
