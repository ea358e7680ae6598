// The files of constants as they stand in constants/, embedded when the program is built.
#pragma once

#include <string_view>
#include <vector>

namespace tombolo::cost {

// All of them, as in "device-a100.toml"; the part before the first '-' is the level.
std::vector<std::string_view> constant_text_names();
std::string_view constant_text(std::string_view name);

}  // namespace tombolo::cost
