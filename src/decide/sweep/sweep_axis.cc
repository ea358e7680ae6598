#include "decide/sweep/sweep_axis.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>

#include "base/check.h"
#include "base/json.h"
#include "base/toml.h"

namespace tombolo::sweep {
namespace {

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

// "10 ms" -> 10 and "ms"; empty where no finite number stands first.
std::optional<SweepNumber> number_with_unit(std::string_view text) {
  text = trimmed(text);
  SweepNumber out;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out.number);
  if (error != std::errc() || !std::isfinite(out.number)) return {};
  out.unit = trimmed(text.substr(static_cast<size_t>(end - text.data())));
  return out;
}

// A whole number of at most 2^53 in size, which a double holds exactly.
bool is_whole(double number) {
  return std::floor(number) == number && std::abs(number) <= 9007199254740992.0;
}

Value point_of_range(double number, const std::string& unit) {
  if (!unit.empty()) return fmt::format("{:.12g} {}", number, unit);
  return is_whole(number) ? Value(static_cast<int64_t>(number)) : Value(number);
}

// "1..8" or "10 ms..40 ms/4"; empty where the text is no range.
std::optional<Result<std::vector<Value>>> parse_range(std::string_view text) {
  const size_t dots = text.find("..");
  if (dots == std::string_view::npos) return {};
  const auto from = number_with_unit(text.substr(0, dots));
  std::string_view rest = text.substr(dots + 2);
  int64_t count = 0;
  if (const size_t slash = rest.rfind('/'); slash != std::string_view::npos) {
    const std::string_view digits = trimmed(rest.substr(slash + 1));
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), count);
    // The unit may have a slash itself: "1 USD/device-hour..3 USD/device-hour/5".
    if (error == std::errc() && end == digits.data() + digits.size()) {
      rest = rest.substr(0, slash);
    } else {
      count = 0;
    }
  }
  const auto to = number_with_unit(rest);
  if (!from || !to || (!from->unit.empty() && from->unit != to->unit)) return {};
  std::vector<Value> values;
  if (count == 0) {
    if (!is_whole(from->number) || !is_whole(to->number) || from->number > to->number) {
      return unusable(fmt::format("{}: not a range of whole numbers", text),
                      "1..8, or n evenly spaced values: 0.5..2/4");
    }
    const double values = to->number - from->number + 1;
    if (values > static_cast<double>(kSweepMax)) {
      return unusable(fmt::format("{}: {:.0f} values, and a sweep takes {} configurations at most",
                                  text, values, kSweepMax),
                      fmt::format("a hundred evenly spaced ones: {}/100", text));
    }
    count = static_cast<int64_t>(values);
  } else if (count < 2 || count > kSweepMax) {
    return unusable(fmt::format("{}: {} values", text, count),
                    fmt::format("2 to {} evenly spaced values", kSweepMax));
  }
  const double span = to->number - from->number;
  if (!std::isfinite(span * static_cast<double>(count))) {
    return unusable(fmt::format("{}: numbers too large", text), "smaller ones");
  }
  for (int64_t i = 0; i < count; ++i) {
    // Multiplied first: whole steps give whole numbers.
    const double way = span * static_cast<double>(i);
    const double number = from->number + way / static_cast<double>(std::max<int64_t>(count - 1, 1));
    values.push_back(point_of_range(number, to->unit));
  }
  return values;
}

// Splits at commas outside of quotes and brackets.
Result<std::vector<std::string_view>> split(std::string_view list, std::string_view path) {
  std::vector<std::string_view> items;
  size_t begin = 0;
  int depth = 0;
  char quote = 0;
  for (size_t i = 0; i < list.size(); ++i) {
    const char c = list[i];
    if (quote) {
      if (c == quote) quote = 0;
    } else if (c == '"' || c == '\'') {
      quote = c;
    } else if (c == '[' || c == '{') {
      ++depth;
    } else if (c == ']' || c == '}') {
      --depth;
    } else if (c == ',' && depth == 0) {
      items.push_back(trimmed(list.substr(begin, i - begin)));
      begin = i + 1;
    }
  }
  if (quote || depth != 0) {
    return unusable(fmt::format("--vary {}={}: a quote or a bracket is not closed", path, list));
  }
  items.push_back(trimmed(list.substr(begin)));
  return items;
}

Value parse_value(std::string_view text) {
  const auto parsed = parse_toml("v = " + std::string(text), "");
  if (!parsed || parsed->get<Value::Table>()->size() != 1) return std::string(text);
  Value value = *parsed->find("v");
  forget_lines(value);
  return value;
}

}  // namespace

void forget_lines(Value& value) {
  value.line = 0;
  if (auto* array = value.get<Value::Array>()) {
    for (Value& item : *array) forget_lines(item);
  } else if (auto* table = value.get<Value::Table>()) {
    for (auto& entry : *table) forget_lines(entry.second);
  }
}

Result<SweepAxis> parse_sweep_axis(std::string_view text) {
  const size_t equals = text.find('=');
  if (equals == std::string_view::npos || trimmed(text.substr(0, equals)).empty()) {
    return unusable(fmt::format("--vary {}: wanted a path, \"=\" and values", text),
                    "--vary training.micro_batch=1,2,4");
  }
  SweepAxis axis{.path = std::string(trimmed(text.substr(0, equals))), .values = {}};
  for (const std::string_view item : TRY(split(text.substr(equals + 1), axis.path))) {
    if (item.empty()) {
      return unusable(fmt::format("--vary {}: an empty value", text),
                      fmt::format("--vary {}=1,2,4", axis.path));
    }
    if (auto range = parse_range(item)) {
      const std::vector<Value> values =
          TRY(during(std::move(*range), "reading --vary " + axis.path));
      axis.values.insert(axis.values.end(), values.begin(), values.end());
    } else {
      axis.values.push_back(parse_value(item));
    }
    if (axis.values.size() > static_cast<size_t>(kSweepMax)) {
      return unusable(fmt::format("--vary {}: more than {} values", axis.path, kSweepMax));
    }
  }
  return axis;
}

Result<SweepGrid> SweepGrid::make(std::vector<SweepAxis> axes) {
  if (axes.empty()) {
    return unusable("nothing varies", "--vary training.micro_batch=1,2,4");
  }
  SweepGrid grid;
  grid.axes_ = std::move(axes);
  grid.strides_.resize(grid.axes_.size());
  for (size_t i = grid.axes_.size(); i-- > 0;) {
    for (size_t j = 0; j < i; ++j) {
      if (grid.axes_[i].path == grid.axes_[j].path) {
        return unusable(fmt::format("--vary {}: given twice", grid.axes_[i].path),
                        "all values behind one --vary");
      }
    }
    grid.strides_[i] = grid.size_;
    const auto count = static_cast<int64_t>(grid.axes_[i].values.size());
    if (count == 0) return unusable(fmt::format("--vary {}: no value", grid.axes_[i].path));
    if (count > kSweepMax / grid.size_) {
      return unusable(fmt::format("more than {} configurations", kSweepMax), "fewer values");
    }
    grid.size_ *= count;
  }
  return grid;
}

const Value& SweepGrid::value(int64_t configuration, size_t axis) const {
  CHECK(axis < axes_.size(), "axis {} of {}", axis, axes_.size());
  const auto& values = axes_[axis].values;
  const auto count = static_cast<int64_t>(values.size());
  return values[static_cast<size_t>(configuration / strides_[axis] % count)];
}

std::string sweep_text(const Value& value) {
  if (value.is_null()) return "";
  if (const auto* text = value.get<std::string>()) return *text;
  if (const auto* number = value.get<double>()) return fmt::format("{}", *number);
  return to_json(value, -1);
}

std::optional<SweepNumber> sweep_number(const Value& value) {
  if (const auto* whole = value.get<int64_t>()) return SweepNumber{static_cast<double>(*whole), ""};
  if (const auto* number = value.get<double>()) return SweepNumber{*number, ""};
  if (const auto* text = value.get<std::string>()) {
    auto found = number_with_unit(*text);
    // "1f1b" is a name, "10ms" and "10 ms" are numbers.
    if (!found || found->unit.empty()) return {};
    for (const char c : found->unit) {
      if (std::isdigit(static_cast<unsigned char>(c))) return {};
    }
    return found;
  }
  return {};
}

}  // namespace tombolo::sweep
