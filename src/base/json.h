// JSON text <-> Value. The parser and printer are nlohmann::json.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "base/value.h"

namespace tombolo {

// `name` is the file's name in messages, `line` the number of the text's first line; 0: the text is
// no file, and neither messages nor Values say lines. Refuses duplicate keys, nesting beyond 64
// levels and integers beyond 64 bits.
Result<Value> parse_json(std::string_view text, const std::string& name, int line = 1);

// indent < 0: one line. Numbers are printed so that they read back to the same value; keys keep
// their order. Equal Values give equal bytes. Non-finite numbers become null, as JSON has none.
std::string to_json(const Value& value, int indent = 2);

}  // namespace tombolo
