// TOML text -> Value, with line numbers. The parser is toml++.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "base/value.h"

namespace tombolo {

// `name` is the file's name in messages. Dates and times are refused: no file of ours has one.
Result<Value> parse_toml(std::string_view text, const std::string& name);

}  // namespace tombolo
