#include "ui/report/answer_values.h"

#include <fmt/format.h>

#include <cmath>

#include "base/check.h"

namespace tombolo::report {

const Value& value_at(const Value& table, std::string_view key) {
  const Value* value = table.find(key);
  CHECK(value, "the answer has no {}", key);
  return *value;
}

std::optional<double> number_at(const Value& table, std::string_view key) {
  const Value& value = value_at(table, key);
  if (const auto* number = value.get<double>()) return *number;
  if (const auto* whole = value.get<int64_t>()) return static_cast<double>(*whole);
  CHECK(value.is_null(), "{} is {}, not a number", key, value.kind());
  return {};
}

std::string text_at(const Value& table, std::string_view key) {
  const Value& value = value_at(table, key);
  if (const auto* text = value.get<std::string>()) return *text;
  CHECK(value.is_null(), "{} is {}, not a text", key, value.kind());
  return "";
}

const Value::Array& list_at(const Value& table, std::string_view key) {
  const Value& value = value_at(table, key);
  CHECK(value.get<Value::Array>(), "{} is {}, not a list", key, value.kind());
  return *value.get<Value::Array>();
}

std::vector<std::string> texts_at(const Value& table, std::string_view key) {
  std::vector<std::string> out;
  for (const Value& each : list_at(table, key)) {
    const auto* text = each.get<std::string>();
    CHECK(text, "{} holds {}", key, each.kind());
    out.push_back(*text);
  }
  return out;
}

std::string time_of(const std::optional<double>& seconds) {
  if (!seconds) return "-";
  if (*seconds >= 2 * 86'400) return fmt::format("{:.3g} days", *seconds / 86'400);
  if (*seconds >= 2 * 3600) return fmt::format("{:.3g} h", *seconds / 3600);
  return brief(Seconds{*seconds});
}

std::string money_of(const std::optional<double>& usd) {
  if (usd && *usd >= 999.5) return figure_of(usd) + " USD";
  return usd ? brief(Dollars{*usd}) : "-";
}

std::string bytes_of(const std::optional<double>& bytes) {
  return bytes ? brief(Bytes{*bytes}) : "-";
}

std::string percent_of(const std::optional<double>& share) {
  return share ? fmt::format("{:.1f} %", 100 * *share) : "-";
}

std::string figure_of(const std::optional<double>& number) {
  if (!number) return "-";
  if (std::abs(*number) >= 999.5 && std::abs(*number) < 1e15) return grouped(std::llround(*number));
  return fmt::format("{:.4g}", *number);
}

}  // namespace tombolo::report
