// TOML that toml++ does not survive, refused before it sees it.
//
// toml++ (3.3 and 3.4) recurses once per dot of a key, and overflows the stack on some hundred
// thousand. Its test for white space is also undefined for most characters from U+00A1 to U+FEFE.
// It makes that test outside of strings and comments, where TOML has no such characters anyway, and
// after a backslash in a multi-line string, where only this check refuses them.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace tombolo {

// Reads only where strings and comments are, and whether a key or a value stands at a place; other errors are left to
// the parser. `dots_max`: on one line, outside of strings and comments.
Status check_toml_hazards(std::string_view text, const std::string& name, int dots_max);

}  // namespace tombolo
