#include "base/toml.h"

#include <algorithm>

#define TOML_EXCEPTIONS 0
#include <toml++/toml.h>

namespace tombolo {
namespace {

int line_of(const toml::node& node) { return static_cast<int>(node.source().begin.line); }

Result<Value> convert(const toml::node& node, const std::string& name) {
  Value out;
  if (const auto* table = node.as_table()) {
    Value::Table entries;
    for (const auto& [key, child] : *table) {
      entries.emplace_back(std::string(key.str()), TRY(convert(child, name)));
    }
    // toml++ sorts keys; the file's order reads better in messages and embedded copies.
    std::stable_sort(entries.begin(), entries.end(),
                     [](const auto& a, const auto& b) { return a.second.line < b.second.line; });
    out = Value(std::move(entries));
  } else if (const auto* array = node.as_array()) {
    Value::Array items;
    for (const auto& child : *array) items.push_back(TRY(convert(child, name)));
    out = Value(std::move(items));
  } else if (const auto* text = node.as_string()) {
    out = Value(text->get());
  } else if (const auto* integer = node.as_integer()) {
    out = Value(integer->get());
  } else if (const auto* number = node.as_floating_point()) {
    out = Value(number->get());
  } else if (const auto* flag = node.as_boolean()) {
    out = Value(flag->get());
  } else {
    return unusable(fmt::format("{}:{}: dates and times are not used here", name, line_of(node)),
                    "a text in quotes");
  }
  out.line = line_of(node);
  return out;
}

}  // namespace

Result<Value> parse_toml(std::string_view text, const std::string& name) {
  toml::parse_result parsed = toml::parse(text);
  if (!parsed) {
    const toml::parse_error& error = parsed.error();
    return unusable(fmt::format("{}:{}:{}: {}", name, error.source().begin.line,
                                error.source().begin.column, error.description()),
                    "checking quotes, brackets and = on this line (TOML 1.0)");
  }
  return convert(parsed.table(), name);
}

}  // namespace tombolo
