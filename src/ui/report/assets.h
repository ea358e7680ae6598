// The page's parts, as they stand in assets/, and D3: embedded when the program is built.
#pragma once

#include <string_view>

namespace tombolo::report {

// By file name, as in asset("page.html"). CHECKs that it exists. The bytes live as long as the
// program.
std::string_view asset(std::string_view name);

}  // namespace tombolo::report
