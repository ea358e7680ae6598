#include "base/toml.h"

#include <gtest/gtest.h>

#include "base/json.h"

namespace tombolo {
namespace {

std::string toml_refusal(std::string_view text) {
  const Result<Value> value = parse_toml(text, "job.toml");
  return value ? "accepted" : value.error().text();
}

TEST(Toml, ValuesKnowTheirLines) {
  const Value value =
      *parse_toml("# a job\n[model]\nlayers = 12\n\n[[wan]]\nloss = 0.5\n", "job.toml");
  const Value* layers = value.find("model")->find("layers");
  EXPECT_EQ(*layers, Value(12));
  EXPECT_EQ(layers->line, 3);
  const Value& wan = (*value.find("wan")->get<Value::Array>())[0];
  EXPECT_EQ(wan.line, 5);
  EXPECT_EQ(*wan.find("loss"), Value(0.5));
}

TEST(Toml, KeysKeepTheOrderOfTheFile) {
  const Value value = *parse_toml("z = 1\na = 2\nm = 3\n", "job.toml");
  EXPECT_EQ(to_json(value, -1), R"({"z":1,"a":2,"m":3})");
}

TEST(Toml, SyntaxErrorsHaveLineAndColumn) {
  const std::string text = toml_refusal("good = 1\nbad = \"never closed\n");
  EXPECT_TRUE(text.starts_with("job.toml:2:")) << text;
  EXPECT_TRUE(text.ends_with("try checking quotes, brackets and = on this line (TOML 1.0)"))
      << text;
  EXPECT_TRUE(toml_refusal("a = 1\na = 2\n").starts_with("job.toml:2:"));
}

TEST(Toml, DatesAreRefused) {
  EXPECT_EQ(toml_refusal("\nwhen = 1979-05-27\n"),
            "job.toml:2: dates and times are not used here\n  try a text in quotes");
}

// What reads as TOML is embedded in Plans as JSON, which may be nested 64 deep.
TEST(Toml, NestingStopsWhereJsonsDoes) {
  const auto nested = [](int depth) {
    return "a = " + std::string(static_cast<size_t>(depth), '[') +
           std::string(static_cast<size_t>(depth), ']');
  };
  EXPECT_EQ(toml_refusal(nested(63)), "accepted");  // and the file itself is the 64th
  EXPECT_TRUE(parse_json(to_json(*parse_toml(nested(63), "t")), "t"));
  EXPECT_NE(toml_refusal(nested(64)), "accepted");
}

TEST(Toml, AVeryLongDottedKeyDoesNotOverflowTheStack) {
  std::string key = "a";
  for (int i = 0; i < 300'000; ++i) key += ".a";
  EXPECT_EQ(toml_refusal("first = 1\n" + key + " = 1\n"),
            "job.toml:2: nested too deeply\n  try at most 64 dots outside quotes on one line");
  const std::string dots(1000, '.');
  EXPECT_EQ(toml_refusal("a = \"" + dots + "\" # " + dots + "\nb = '" + dots + "'\n"), "accepted");
}

// Each makes toml++ rely on promises that the text has broken.
TEST(Toml, HostileTextIsRefusedWithALine) {
  EXPECT_TRUE(toml_refusal("a = 1979-05-27Tx\n").starts_with("job.toml:1:"));
  EXPECT_TRUE(toml_refusal("a = 1980-05\xef\xb8\x8f\n").starts_with("job.toml:1:"));
  EXPECT_EQ(toml_refusal("name = \u201coregon\u201d\n"),
            "job.toml:1: a character beyond ASCII outside quotes\n"
            "  try straight quotes around the text");
  EXPECT_EQ(toml_refusal("name = \"caf\u00e9\" # \u00e9\n"), "accepted");
}

TEST(Toml, WritesAsAPersonWouldAndReadsBackEqual) {
  const char* text =
      "name = \"a \\\"b\\\" \\n\"\n"
      "\n[training]\nbatch = 64\nrate = 0.0003\nfast = true\nshares = [1, 2]\n"
      "fabric = { domain = 8, \"odd key\" = {} }\n"
      "\n[[cluster.datacenter]]\nname = \"oregon\"\n"
      "\n[[cluster.datacenter]]\nname = \"paris\"\ndevice = { peak = \"1 TFLOPS\" }\n";
  const Result<Value> value = parse_toml(text, "file.toml");
  ASSERT_TRUE(value) << value.error().text();
  EXPECT_EQ(to_toml(*value), text);
  const Value odd = Value::Table{{"\x7f", "\x7f\t\xc3\xa9"}};
  EXPECT_EQ(*parse_toml(to_toml(odd), "odd.toml"), odd);
}

// A double is read back as the same double, null as nothing.
TEST(Toml, KeepsEveryNumber) {
  const Value numbers =
      Value::Table{{"a", 0.1},     {"b", 1e-300}, {"c", 1.0}, {"d", int64_t{1} << 62},
                   {"e", 1.0 / 3}, {"f", -2.5e17}};
  EXPECT_EQ(*parse_toml(to_toml(numbers), "t"), numbers);
  EXPECT_EQ(*parse_toml(to_toml(Value(Value::Table{{"a", Value()}, {"b", 1}})), "t"),
            Value(Value::Table{{"b", 1}}));
}

}  // namespace
}  // namespace tombolo
