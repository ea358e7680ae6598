// TOML text <-> Value, with line numbers. The parser is toml++.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "base/value.h"

namespace tombolo {

// `name` is the file's name in messages. Dates and times are refused: no file of ours has one.
Result<Value> parse_toml(std::string_view text, const std::string& name);

// As a person would write it: [sections], [[lists of tables]], and inline tables below those. Reads
// back equal, but for keys whose value is null, which TOML has not. CHECKs that `file` is a table.
// Not by toml++, whose formatter (3.3) sorts the keys and spells 0.0003 as 0.00029999999999999997.
std::string to_toml(const Value& file);

}  // namespace tombolo
