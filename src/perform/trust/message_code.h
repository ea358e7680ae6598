// HMAC-SHA256 (RFC 2104): proves knowledge of a secret without revealing it.
#pragma once

#include <array>
#include <cstddef>
#include <span>

namespace tombolo::trust {

using MessageCode = std::array<std::byte, 32>;

MessageCode message_code(std::span<const std::byte> secret, std::span<const std::byte> message);

// Takes as long for a near miss as for a far one.
bool same_code(std::span<const std::byte> a, std::span<const std::byte> b);

}  // namespace tombolo::trust
