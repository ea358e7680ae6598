#include "ui/serve/api_keys.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tombolo::serve {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(ApiKeys, AllowTheirOwnersAlone) {
  const ApiKeys keys =
      ApiKeys::parse("# two people\nfirst-key-of-two\r\n\nsecond-key-of-two\n", "keys").value();
  EXPECT_TRUE(keys.allow("Bearer first-key-of-two"));
  EXPECT_TRUE(keys.allow("Bearer second-key-of-two"));
  for (const char* other : {"", "Bearer", "Bearer ", "first-key-of-two", "Basic first-key-of-two",
                            "Bearer first-key-of-tw", "Bearer first-key-of-twoo",
                            "Bearer first-key-of-twofirst-key-of-two", "Bearer # two people"}) {
    EXPECT_FALSE(keys.allow(other)) << other;
  }
}

TEST(ApiKeys, WithoutAnyEverybodyMayAsk) { EXPECT_TRUE(ApiKeys().allow("")); }

TEST(ApiKeys, MessagesNameLinesAndNoKeys) {
  const auto got = ApiKeys::parse("first-key-of-two\nshort-one\n", "keys");
  ASSERT_FALSE(got);
  EXPECT_THAT(got.error().text(), HasSubstr("keys:2: a key has 16 characters or more"));
  EXPECT_THAT(got.error().text(), Not(HasSubstr("short-one")));
  EXPECT_FALSE(ApiKeys::parse("# none\n", "keys"));
  EXPECT_FALSE(ApiKeys::parse("with a space in it\n", "keys"));
}

}  // namespace
}  // namespace tombolo::serve
