#include "spec/chakra/wire.h"

#include <gtest/gtest.h>

namespace tombolo::chakra {
namespace {

TEST(Wire, KnowsNumbersOfFourAndEightBytesAlone) {
  std::string out;
  append_fixed(out, 4, 0x04030201);
  EXPECT_EQ(out, "\x01\x02\x03\x04");
  uint64_t value = 0;
  ASSERT_TRUE(WireReader(out).fixed(4, value));
  EXPECT_EQ(value, 0x04030201u);
  EXPECT_DEATH(append_fixed(out, 3, 0), "a number of 3 bytes");
  EXPECT_DEATH(WireReader(out).fixed(0, value), "a number of 0 bytes");
}

TEST(Wire, FieldsCountFromOne) {
  std::string out;
  append_key(out, 1, WireKind::kBytes);
  EXPECT_EQ(out, "\x0a");
  EXPECT_DEATH(append_key(out, 0, WireKind::kVarint), "a field cannot have the number 0");
}

}  // namespace
}  // namespace tombolo::chakra
