// TOML that toml++ does not survive, refused before it sees it.
//
// toml++ (3.3 and 3.4) recurses once per dot of a key, and overflows the stack on some hundred
// thousand. And what its test for white space answers about most characters of U+00A1 to U+FEFE is
// undefined. It makes that test outside of strings and comments, where TOML has no such characters
// anyway, and behind a backslash in a string of many lines, where they are refused here alone.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace tombolo {

// Where strings and comments are, and whether a key or a value stands at a place, is read, and nothing else. What is wrong with them is left to the
// parser. `dots_max`: on one line, outside of strings and comments.
Status check_toml_hazards(std::string_view text, const std::string& name, int dots_max);

}  // namespace tombolo
