// Reading a command's answer, as it is printed with --json, for a page: one representation of both. CHECKs that keys are there.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/units.h"
#include "base/value.h"

namespace tombolo::report {

const Value& value_at(const Value& table, std::string_view key);
std::optional<double> number_at(const Value& table, std::string_view key);  // none of null
std::string text_at(const Value& table, std::string_view key);              // empty of null
const Value::Array& list_at(const Value& table, std::string_view key);
std::vector<std::string> texts_at(const Value& table, std::string_view key);

// The figure of a cell or a card: "8.37 s", "0.24 USD", "45.8 %"; "-" of none.
std::string time_of(const std::optional<double>& seconds);  // from two hours on "2.31 h", then days
std::string money_of(const std::optional<double>& usd);
std::string bytes_of(const std::optional<double>& bytes);
std::string percent_of(const std::optional<double>& share);
std::string figure_of(const std::optional<double>& number);  // four digits

}  // namespace tombolo::report
