// Quantities in options, which may leave out the unit; keys of files may not.
#pragma once

#include <string_view>

#include "base/units.h"

namespace tombolo {

namespace detail {
// "5" becomes "5 s" where `unit` is "s"; text that is not a number alone is returned as it is.
std::string with_unit(std::string_view text, std::string_view unit);
}  // namespace detail

// "200 ms" as parse_quantity reads it, and "5" as "5 s" where `unit` is "s".
template <typename Q>
Result<Q> parse_lone_number(std::string_view text, std::string_view unit) {
  return parse_quantity<Q>(detail::with_unit(text, unit));
}

}  // namespace tombolo
