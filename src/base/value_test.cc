#include "base/value.h"

#include <gtest/gtest.h>

namespace tombolo {
namespace {

TEST(Value, KnowsItsKind) {
  EXPECT_STREQ(Value().kind(), "nothing");
  EXPECT_STREQ(Value(true).kind(), "true or false");
  EXPECT_STREQ(Value(1).kind(), "a whole number");
  EXPECT_STREQ(Value(1.5).kind(), "a number");
  EXPECT_STREQ(Value("x").kind(), "a text");  // not true or false, as pointers would be
  EXPECT_STREQ(Value(Value::Array{}).kind(), "a list");
  EXPECT_STREQ(Value(Value::Table{}).kind(), "a table");
}

TEST(Value, ATableKeepsItsOrderAndReplacesInPlace) {
  Value table(Value::Table{});
  table.set("b", 1);
  table.set("a", 2);
  table.set("b", 3);
  const auto& entries = *table.get<Value::Table>();
  ASSERT_EQ(entries.size(), 2u);
  EXPECT_EQ(entries[0].first, "b");
  EXPECT_EQ(*table.find("b"), Value(3));
  EXPECT_EQ(table.find("c"), nullptr);
  EXPECT_EQ(Value(1).find("b"), nullptr);
}

TEST(Value, EqualityIsContentWithoutPlace) {
  Value here("x");
  here.line = 7;
  EXPECT_EQ(here, Value("x"));
  EXPECT_FALSE(Value(1) == Value(1.0));  // 1 and 1.0 are written differently
}

TEST(ValueDeathTest, OnlyTablesHaveKeys) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  Value list(Value::Array{});
  EXPECT_DEATH(list.set("a", 1), "set\\(\"a\"\\) on a list");
}

}  // namespace
}  // namespace tombolo
