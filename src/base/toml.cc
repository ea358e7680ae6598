#include "base/toml.h"

#include <algorithm>

#define TOML_EXCEPTIONS 0
#define TOML_MAX_NESTED_VALUES 64
// Where NDEBUG is defined, toml++ promises the optimiser what it asserts elsewhere, and hostile text
// breaks such promises: a parser function is to find a digit after the T of a date, say. Its next
// line reports that properly; so nothing is promised and nothing asserted.
#define TOML_ASSERT(condition) static_assert(true)
#pragma push_macro("NDEBUG")
#undef NDEBUG
#include <toml++/toml.h>
#pragma pop_macro("NDEBUG")

#include "base/toml_hazards.h"

namespace tombolo {
namespace {

int line_of(const toml::node& node) { return static_cast<int>(node.source().begin.line); }

constexpr int kDepthLimit = 64;  // as in json.cc: what reads as TOML must read back as JSON

Result<Value> convert(const toml::node& node, const std::string& name, int depth) {
  Value out;
  if (!node.is_value() && depth >= kDepthLimit) {
    return unusable(fmt::format("{}:{}: nested too deeply", name, line_of(node)));
  }
  if (const auto* table = node.as_table()) {
    Value::Table entries;
    for (const auto& [key, child] : *table) {
      entries.emplace_back(std::string(key.str()), TRY(convert(child, name, depth + 1)));
    }
    // toml++ sorts keys; the file's order reads better in messages and embedded copies.
    std::stable_sort(entries.begin(), entries.end(),
                     [](const auto& a, const auto& b) { return a.second.line < b.second.line; });
    out = Value(std::move(entries));
  } else if (const auto* array = node.as_array()) {
    Value::Array items;
    for (const auto& child : *array) items.push_back(TRY(convert(child, name, depth + 1)));
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
  const size_t first = text.find_first_not_of(" \t\r\n");
  if (first != std::string_view::npos && text[first] == '{') {
    return unusable(fmt::format("{}: this is JSON, and TOML is wanted here", name),
                    "a job file; it may name a model's config.json: [model] config = "
                    "\"config.json\"");
  }
  TRY(check_toml_hazards(text, name, kDepthLimit));
  toml::parse_result parsed = toml::parse(text);
  if (!parsed) {
    const toml::parse_error& error = parsed.error();
    return fail({ErrorCode::kUnusable,
                 fmt::format("{}:{}:{}: {}", name, error.source().begin.line,
                             error.source().begin.column, error.description()),
                 {},
                 "checking quotes, brackets and = on this line (TOML 1.0)",
                 {.file = name, .line = static_cast<int>(error.source().begin.line)}});
  }
  return convert(parsed.table(), name, 0);
}

}  // namespace tombolo
