#include <algorithm>
#include <cctype>

#include "base/check.h"
#include "base/json.h"
#include "base/toml.h"

namespace tombolo {
namespace {

bool is_table(const Value& value) { return value.get<Value::Table>() != nullptr; }

bool is_list_of_tables(const Value& value) {
  const Value::Array* array = value.get<Value::Array>();
  return array && !array->empty() && std::all_of(array->begin(), array->end(), is_table);
}

std::string inline_text(const Value& value);

std::string key_text(const std::string& key) {
  const bool bare = !key.empty() && std::all_of(key.begin(), key.end(), [](unsigned char c) {
    return (c < 0x80 && std::isalnum(c)) || c == '_' || c == '-';
  });
  return bare ? key : inline_text(Value(key));
}

// On one line. A text in JSON's spelling is one in TOML's, and so are numbers.
std::string inline_text(const Value& value) {
  std::string out;
  const auto add = [&](const std::string& item) { out += (out.empty() ? "" : ", ") + item; };
  if (const Value::Table* table = value.get<Value::Table>()) {
    for (const auto& [key, item] : *table) {
      if (!item.is_null()) add(fmt::format("{} = {}", key_text(key), inline_text(item)));
    }
    return out.empty() ? "{}" : "{ " + out + " }";
  }
  if (const Value::Array* array = value.get<Value::Array>()) {
    for (const Value& item : *array) add(inline_text(item));
    return "[" + out + "]";
  }
  std::string text = to_json(value, -1);
  // The one character that JSON leaves as it is and TOML does not take.
  for (size_t at = 0; (at = text.find('\x7f', at)) != std::string::npos;) {
    text.replace(at, 1, "\\u007F");
  }
  return text;
}

void add_section(const Value& section, const std::string& path, int depth, std::string& out) {
  // What stands in a section comes before the sections below it.
  const auto below = [&](const Value& value) {
    return is_list_of_tables(value) || (depth == 0 && is_table(value));
  };
  for (const auto& [key, value] : *section.get<Value::Table>()) {
    if (value.is_null() || below(value)) continue;
    out += fmt::format("{} = {}\n", key_text(key), inline_text(value));
  }
  for (const auto& [key, value] : *section.get<Value::Table>()) {
    if (!below(value)) continue;
    const std::string name = path.empty() ? key_text(key) : path + "." + key_text(key);
    if (is_table(value)) {
      // A section that only holds lists of tables needs no heading of its own.
      const auto& entries = *value.get<Value::Table>();
      const bool heading =
          entries.empty() || std::any_of(entries.begin(), entries.end(), [](const auto& entry) {
            return !is_list_of_tables(entry.second);
          });
      if (heading) out += fmt::format("{}[{}]\n", out.empty() ? "" : "\n", name);
      add_section(value, name, depth + 1, out);
    } else {
      for (const Value& item : *value.get<Value::Array>()) {
        out += fmt::format("{}[[{}]]\n", out.empty() ? "" : "\n", name);
        add_section(item, name, depth + 1, out);
      }
    }
  }
}

}  // namespace

std::string to_toml(const Value& file) {
  CHECK(is_table(file), "a TOML file is a table, not {}", file.kind());
  std::string out;
  add_section(file, "", 0, out);
  return out;
}

}  // namespace tombolo
