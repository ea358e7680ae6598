#include "base/json.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include "base/random.h"

namespace tombolo {
namespace {

std::string json_refusal(std::string_view text) {
  const Result<Value> value = parse_json(text, "plan.json", 3);
  return value ? "accepted" : value.error().text();
}

TEST(Json, WhatIsReadIsWrittenAgain) {
  const std::string text =
      R"({"z":[1,2.5,-0.0,"\u0000é",true,null],"a":{},"m":-9223372036854775808})";
  EXPECT_EQ(to_json(*parse_json(text, "t"), -1), text);
}

TEST(Json, IndentedTextForPeople) {
  EXPECT_EQ(to_json(Value(Value::Table{{"a", 1}})), "{\n  \"a\": 1\n}");
}

TEST(Json, NumbersThatAreTooLongAreNamed) {
  EXPECT_EQ(json_refusal(R"({"a": {"seed": 9223372036854775808}})"),
            "plan.json:3: \"seed\": 9223372036854775808 is beyond 64 bits");
  EXPECT_EQ(json_refusal(R"({"ids": [1, [99999999999999999999]]})"),
            "plan.json:3: \"ids\": 99999999999999999999 is beyond 64 bits");
}

TEST(Json, RefusalsSayWhereAndWhy) {
  EXPECT_EQ(json_refusal("{\"a\": }"), "plan.json:3: not JSON at byte 7");
  EXPECT_EQ(json_refusal(R"({"a": 1, "a": 2})"), "plan.json:3: the key \"a\" stands twice");
  std::string many = "{";
  for (int i = 0; i < 200; ++i) many += fmt::format("\"k{}\": 0, ", i);
  EXPECT_EQ(json_refusal(many + R"("k150": 1})"), "plan.json:3: the key \"k150\" stands twice");
  EXPECT_EQ(json_refusal(many + R"("k200": 1})"), "accepted");
  EXPECT_EQ(json_refusal("18446744073709551615"),
            "plan.json:3: 18446744073709551615 is beyond 64 bits");
  EXPECT_EQ(json_refusal("-99999999999999999999"),
            "plan.json:3: -99999999999999999999 is beyond 64 bits");
  EXPECT_NE(json_refusal("1e999"), "accepted");
  EXPECT_NE(json_refusal(""), "accepted");
  EXPECT_NE(json_refusal("1 2"), "accepted");
}

TEST(Json, RefusalsNameTheLine) {
  // The text begins in line 3.
  EXPECT_EQ(json_refusal("{\n\"a\":\n}"), "plan.json:5: not JSON at byte 8");
  EXPECT_EQ(json_refusal("{\"a\": 1,\n \"a\": 2\n}"), "plan.json:4: the key \"a\" stands twice");
  EXPECT_EQ(json_refusal("{\n\"a\": 18446744073709551615\n}"),
            "plan.json:4: \"a\": 18446744073709551615 is beyond 64 bits");
  EXPECT_EQ(json_refusal("\n[\n"), "plan.json:4: not JSON at byte 4");
}

TEST(Json, ValuesKnowTheirLine) {
  const Value value = *parse_json("{\n\"a\": 1\n,\n\"b\": [\n\"c\", {}\n]\n}", "t");
  EXPECT_EQ(value.line, 1);
  EXPECT_EQ(value.find("a")->line, 2);  // the parser has read the end of the line, too
  EXPECT_EQ(value.find("b")->line, 4);  // where it begins
  const auto& list = *value.find("b")->get<Value::Array>();
  EXPECT_EQ(list[0].line, 5);
  EXPECT_EQ(list[1].line, 5);
}

TEST(Json, AMessageHasNoLines) {
  const Result<Value> refused = parse_json("{\n\"a\": }", "a message", 0);
  EXPECT_EQ(refused.error().text(), "a message: not JSON at byte 8");
  EXPECT_EQ(refused.error().place.line, 0);
  EXPECT_EQ(parse_json("{\n\"a\": 1}", "a message", 0)->find("a")->line, 0);
}

TEST(Json, NestingIsBounded) {
  EXPECT_EQ(json_refusal(std::string(64, '[') + std::string(64, ']')), "accepted");
  EXPECT_EQ(json_refusal(std::string(65, '[') + std::string(65, ']')),
            "plan.json:3: nested too deeply");
  EXPECT_EQ(json_refusal(std::string(1'000'000, '[')), "plan.json:3: nested too deeply");
}

TEST(Json, NonFiniteNumbersBecomeNull) {
  EXPECT_EQ(to_json(Value(Value::Array{INFINITY, NAN}), -1), "[null,null]");
}

TEST(Json, EveryFiniteDoubleSurvives) {
  Random random(4);
  for (int i = 0; i < 20000; ++i) {
    const double value = std::bit_cast<double>(random.next());
    if (!std::isfinite(value)) continue;
    const Value back = *parse_json(to_json(Value(value)), "t");
    ASSERT_NE(back.get<double>(), nullptr) << to_json(Value(value));
    ASSERT_EQ(std::bit_cast<uint64_t>(*back.get<double>()), std::bit_cast<uint64_t>(value));
  }
}

TEST(Json, BytesThatAreNotUtf8AreReplacedWhenWritten) {
  EXPECT_EQ(to_json(Value("a\xff"), -1), "\"a\xEF\xBF\xBD\"");
}

}  // namespace
}  // namespace tombolo
