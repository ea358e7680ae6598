#include "perform/trust/message_code.h"

#include <gtest/gtest.h>

#include <string>

namespace tombolo::trust {
namespace {

// RFC 4231, test case 2.
TEST(MessageCode, IsThatOfTheStandard) {
  const std::string key = "Jefe", text = "what do ya want for nothing?";
  const MessageCode code =
      message_code(std::as_bytes(std::span(key)), std::as_bytes(std::span(text)));
  const std::array<uint8_t, 32> wanted{0x5b, 0xdc, 0xc1, 0x46, 0xbf, 0x60, 0x75, 0x4e,
                                       0x6a, 0x04, 0x24, 0x26, 0x08, 0x95, 0x75, 0xc7,
                                       0x5a, 0x00, 0x3f, 0x08, 0x9d, 0x27, 0x39, 0x83,
                                       0x9d, 0xec, 0x58, 0xb9, 0x64, 0xec, 0x38, 0x43};
  EXPECT_TRUE(same_code(code, std::as_bytes(std::span(wanted))));
  MessageCode other = code;
  other[31] ^= std::byte{1};
  EXPECT_FALSE(same_code(code, other));
  EXPECT_FALSE(same_code(code, std::span(code).first(31)));
}

}  // namespace
}  // namespace tombolo::trust
