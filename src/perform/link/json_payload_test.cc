#include "perform/link/json_payload.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tombolo::link {
namespace {

using testing::HasSubstr;

TEST(JsonPayload, ComesBackTheSame) {
  const Value value = Value::Table{{"ranks", Value::Array{1, 2}}, {"name", "rome"}};
  const Payload payload = json_payload(value);
  ASSERT_EQ(payload.size(), std::string_view(R"({"ranks":[1,2],"name":"rome"})").size());
  EXPECT_EQ(payload[1], std::byte{'"'});
  const Result<Value> back = read_json_payload(payload, "a call", payload.size());
  ASSERT_TRUE(back) << back.error().text();
  EXPECT_EQ(*back, value);
}

TEST(JsonPayload, RefusesWhatIsTooLongOrNoJson) {
  Payload payload = json_payload(Value("seven"));
  const Result<Value> long_one = read_json_payload(payload, "a call", payload.size() - 1);
  ASSERT_FALSE(long_one);
  EXPECT_THAT(long_one.error().text(), HasSubstr("a call: 7 bytes, of at most 6"));
  payload.pop_back();
  const Result<Value> cut = read_json_payload(payload, "a call", 100);
  ASSERT_FALSE(cut);
  EXPECT_THAT(cut.error().text(), HasSubstr("a call"));
  EXPECT_FALSE(read_json_payload({}, "a call", 100));
}

}  // namespace
}  // namespace tombolo::link
