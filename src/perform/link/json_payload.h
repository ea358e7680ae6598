// Messages with described fields (base/fields.h), as the JSON text of a payload. Those with rows of numbers have a header
// and the bytes behind it instead (generate/kv_rows.h, shard_message.h).
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "base/result.h"
#include "base/value.h"
#include "perform/link/message.h"

namespace tombolo::link {

// The value as JSON on one line. Cost: one copy of the text.
Payload json_payload(const Value& value);

// Parses a payload that was received. Fails above `bytes_max`, and where they are no JSON; `what` names them then.
Result<Value> read_json_payload(std::span<const std::byte> bytes, std::string_view what,
                                size_t bytes_max);

}  // namespace tombolo::link
