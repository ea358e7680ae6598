#include "base/lone_number.h"

#include <charconv>

namespace tombolo::detail {

std::string with_unit(std::string_view text, std::string_view unit) {
  const size_t first = text.find_first_not_of(' ');
  if (first == std::string_view::npos) return std::string(text);
  const std::string_view number = text.substr(first, text.find_last_not_of(' ') + 1 - first);
  double value = 0;
  const char* const end = number.data() + number.size();
  const auto [rest, ec] = std::from_chars(number.data(), end, value);
  if (ec != std::errc{} || rest != end) return std::string(text);
  return std::string(number) + " " + std::string(unit);
}

}  // namespace tombolo::detail
