// What Endpoint::receive_any() fails with when its deadline comes first, for callers that then go
// and do something else.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "perform/link/message.h"

namespace tombolo::transport {

Error receive_timeout(int32_t peer, link::Tag tag);
bool is_receive_timeout(const Error& error);

}  // namespace tombolo::transport
