#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "base/json.h"
#include "ui/evidence_commands/evidence_commands.h"

namespace tombolo::evidence_commands {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

Result<std::string> answer(const ReproduceOptions& options) {
  std::ostringstream out;
  TRY(reproduce(options, out));
  return out.str();
}

TEST(ReproduceReference, PrintsOneTableOrAll) {
  const auto one = answer({.table = "reference/korthikanti", .law = "rail-only"});
  ASSERT_TRUE(one) << one.error().text();
  EXPECT_THAT(*one, ContainsRegex("\n  korthikanti +5 "));
  EXPECT_THAT(*one, Not(HasSubstr("bloom")));
  const auto all = answer({.table = "reference", .law = "rail-only"});
  ASSERT_TRUE(all) << all.error().text();
  EXPECT_THAT(*all, ContainsRegex("\n  vtrain-multinode +54 "));
  EXPECT_THAT(*all, ContainsRegex("\n  korthikanti-memory +14 "));
}

// Korthikanti's activations of 22B on one device, figure 1: the paper's formula is exact.
TEST(ReproduceReference, PrintsRowsWithBothFigures) {
  const auto rows =
      answer({.table = "reference/korthikanti-memory", .law = "rail-only", .rows = true});
  ASSERT_TRUE(rows) << rows.error().text();
  EXPECT_THAT(*rows, HasSubstr("fig1 22B selective+seq: 9.56 for 9.56 GiB (+0.0 %)"));
}

TEST(ReproduceReference, IsADocumentForPrograms) {
  const auto text =
      answer({.table = "reference/mlperf", .law = "rail-only", .rows = true, .json = true});
  ASSERT_TRUE(text) << text.error().text();
  const auto json = parse_json(*text, "answer");
  ASSERT_TRUE(json) << json.error().text();
  const auto& tables = *json->find("tables")->get<Value::Array>();
  ASSERT_EQ(tables.size(), 1);
  EXPECT_EQ(tables[0].find("row")->get<Value::Array>()->size(), 4);
}

TEST(ReproduceReference, RefusesWhatItDoesNotKnow) {
  EXPECT_EQ(answer({.table = "reference/blom", .law = "rail-only"}).error().exit_code(), 2);
  EXPECT_EQ(answer({.table = "reference", .law = "newton"}).error().exit_code(), 2);
  EXPECT_EQ(
      answer({.table = "reference", .data = "/nowhere", .law = "rail-only"}).error().exit_code(),
      2);
  EXPECT_EQ(answer({.table = "rail-only", .rows = true}).error().exit_code(), 2);
}

TEST(ReproduceUtilisation, PrintsEveryDeviceBesideTheHighestPublished) {
  const auto text = answer({.table = "utilisation"});
  ASSERT_TRUE(text) << text.error().text();
  EXPECT_THAT(*text, HasSubstr("| a100-80g, a100-40g, a800-80g, l40s | 72.0 | – |"));
  EXPECT_THAT(*text, HasSubstr("| llama3-8b on 32 a100-80g | 72.0 |"));
  EXPECT_THAT(*text, HasSubstr("| deepseek-v3 on 512 v100-16g | 39.4 | – |"));
  const auto json = parse_json(*answer({.table = "utilisation", .json = true}), "answer");
  ASSERT_TRUE(json) << json.error().text();
  EXPECT_EQ(json->find("tables")->get<Value::Array>()->size(), 2);
  EXPECT_EQ(answer({.table = "utilisation", .rows = true}).error().exit_code(), 2);
}

}  // namespace
}  // namespace tombolo::evidence_commands
