// What ranks of a test share and send.
#pragma once

#include "base/random.h"
#include "perform/link/handshake.h"
#include "perform/link/message.h"

namespace tombolo::link {

inline const Token kToken = *Token::parse("00112233445566778899aabbccddeeff");

inline Payload noise(size_t bytes, uint64_t seed) {
  Random random(seed);
  Payload out(bytes);
  for (std::byte& b : out) b = static_cast<std::byte>(random.next());
  return out;
}

}  // namespace tombolo::link
