#include "spec/model/config_fields.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "base/json.h"

namespace tombolo::model::detail {

const Value* Config::take(std::string_view key) {
  taken_.insert(std::string(key));
  for (const auto& [name, value] : table_) {
    if (name == key && !value.is_null()) return &value;
  }
  return nullptr;
}

bool Config::is_null(std::string_view key) {
  taken_.insert(std::string(key));
  return std::ranges::any_of(
      table_, [&](const auto& field) { return field.first == key && field.second.is_null(); });
}

std::optional<int64_t> Config::integer(std::string_view key, int64_t max, int64_t min) {
  CHECK(min <= max, "{} between {} and {}", key, min, max);
  const Value* value = take(key);
  if (!value) return std::nullopt;
  std::optional<int64_t> number;
  if (const int64_t* exact = value->get<int64_t>()) number = *exact;
  if (const double* real = value->get<double>()) {
    if (std::abs(*real) < 1e15 && std::floor(*real) == *real) number = static_cast<int64_t>(*real);
  }
  if (number && *number >= min && *number <= max) return number;
  refuse(key, fmt::format("wanted a whole number between {} and {}", min, max));
  return std::nullopt;
}

int64_t Config::needed(std::string_view key, int64_t max) {
  const std::optional<int64_t> number = integer(key, max);
  if (!number && !has(key)) missing(key);
  return number.value_or(1);
}

std::optional<int64_t> Config::integer_of(std::initializer_list<const char*> keys, int64_t max) {
  CHECK(keys.size() > 0, "{}: a value without a name", file_);
  std::optional<int64_t> found;
  const char* found_key = nullptr;
  for (const char* key : keys) {
    const std::optional<int64_t> number = integer(key, max);
    if (number && found && *number != *found) {
      refuse(key, fmt::format("contradicts {} = {}", found_key, *found));
    }
    if (number && !found) {
      found = number;
      found_key = key;
    }
  }
  return found;
}

double Config::number(std::string_view key, double otherwise) {
  const Value* value = take(key);
  if (!value) return otherwise;
  if (const int64_t* whole = value->get<int64_t>()) return static_cast<double>(*whole);
  if (const double* real = value->get<double>()) return *real;
  refuse(key, "wanted a number");
  return otherwise;
}

bool Config::flag(std::string_view key, bool otherwise) {
  const Value* value = take(key);
  if (!value) return otherwise;
  if (const bool* flag = value->get<bool>()) return *flag;
  refuse(key, "wanted true or false");
  return otherwise;
}

std::string Config::text(std::string_view key) {
  const Value* value = take(key);
  if (!value) return "";
  if (const std::string* text = value->get<std::string>()) return *text;
  refuse(key, "wanted a text");
  return "";
}

void Config::missing(std::string_view key) {
  complain(fmt::format("{}: {} is missing", file_, key));
}

void Config::refuse(std::string_view key, std::string_view why, std::string hint) {
  const Value* value = take(key);
  std::string shown = value ? to_json(*value, -1) : "left out";
  if (shown.size() > 60) shown = shown.substr(0, 57) + "...";
  complain(fmt::format("{}: {} = {}: {}", file_, key, shown, why), std::move(hint));
}

void Config::absorb(Config inner) {
  if (!error_) error_ = inner.error_;
  for (std::string& note : inner.finish()) notes_.push_back(std::move(note));
}

std::vector<std::string> Config::finish() {
  std::string unknown;
  for (const auto& [name, value] : table_) {
    if (!taken_.contains(name)) unknown += (unknown.empty() ? "" : ", ") + name;
  }
  if (!unknown.empty()) note("unknown and ignored: " + unknown);
  return std::move(notes_);
}

void Config::complain(std::string message, std::string hint) {
  if (!error_) error_ = Error{ErrorCode::kUnusable, std::move(message), {}, std::move(hint)};
}

}  // namespace tombolo::model::detail
