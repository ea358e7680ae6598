#include "base/csv.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tombolo {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string complaint(std::string_view text) {
  const auto rows = parse_csv(text, "t.csv");
  return rows ? "accepted" : rows.error().text();
}

TEST(Csv, ReadsCellsByTheirColumn) {
  const auto rows =
      parse_csv("# a source\r\nmodel,gpus,time\n\n8B,64,1.5\r\n\"a, \"\"b\"\"\",,\n", "t.csv");
  ASSERT_TRUE(rows) << rows.error().text();
  ASSERT_EQ(rows->size(), 2);
  const CsvRow& first = rows->front();
  EXPECT_EQ(first.line(), 4);
  EXPECT_EQ(first.text("model").value(), "8B");
  EXPECT_EQ(first.count("gpus").value(), 64);
  EXPECT_EQ(first.number("time").value(), 1.5);
  EXPECT_FALSE(first.has("memory"));
  EXPECT_EQ(rows->back().text("model").value(), "a, \"b\"");
  EXPECT_FALSE(rows->back().has("gpus"));
}

// Spreadsheets write one; the first column is no less named.
TEST(Csv, TakesAByteOrderMark) {
  const auto rows = parse_csv("\xef\xbb\xbfTIMESTAMP,ContextTokens\n1,374\n", "t.csv");
  ASSERT_TRUE(rows) << rows.error().text();
  EXPECT_EQ(*rows->front().count("TIMESTAMP"), 1);
  EXPECT_FALSE(parse_csv("\xef\xbb\xbf", "t.csv"));
  EXPECT_TRUE(parse_csv("\xef\xbb\xbf# by hand\na\n1\n", "t.csv"));
}

TEST(Csv, SaysWhereACellIsWrong) {
  const auto rows = parse_csv("model,gpus,time\n8B,six,-1\n", "t.csv");
  ASSERT_TRUE(rows);
  const CsvRow& row = rows->front();
  EXPECT_THAT(row.count("gpus").error().text(), StartsWith("t.csv:2:4: gpus = \"six\": wanted"));
  EXPECT_THAT(row.number("time").error().text(), StartsWith("t.csv:2:8: time = \"-1\""));
  EXPECT_THAT(row.number("model").error().text(), StartsWith("t.csv:2:1: model = \"8B\""));
  EXPECT_THAT(row.text("seq").error().text(), HasSubstr("there is no column \"seq\""));
  EXPECT_EQ(row.count("gpus").error().code, ErrorCode::kUnusable);
}

TEST(Csv, RefusesWhatIsNoTable) {
  EXPECT_THAT(complaint("# only notes\n"), HasSubstr("no line that names the columns"));
  EXPECT_THAT(complaint("a,b\n1\n"), StartsWith("t.csv:2: 1 cells for 2 columns"));
  EXPECT_THAT(complaint("a,b\n1,\"2\n"), StartsWith("t.csv:2:3: a quote that is not closed"));
  EXPECT_THAT(complaint("a,b\n\"1\"2,3\n"), StartsWith("t.csv:2:4: \"2\" after a closed quote"));
  EXPECT_THAT(complaint("a,a\n"), StartsWith("t.csv:1:3: column \"a\" twice"));
  EXPECT_THAT(complaint("a,,b\n"), StartsWith("t.csv:1:3: a column without a name"));
  EXPECT_EQ(complaint("a,b"), "accepted");
}

TEST(Csv, RefusesNumbersThatAreNone) {
  const auto rows = parse_csv("a,b,c,d\nnan,1e999,9999999999999,7x\n", "t.csv");
  ASSERT_TRUE(rows);
  for (const char* column : {"a", "b", "d"}) EXPECT_FALSE(rows->front().number(column)) << column;
  EXPECT_FALSE(rows->front().count("c"));
}

TEST(CsvLine, QuotesWhatNeedsQuotes) {
  const std::vector<std::string> cells = {"a", "", "b,c", "say \"so\"", "two\nlines"};
  EXPECT_EQ(csv_line(cells), "a,,\"b,c\",\"say \"\"so\"\"\",\"two lines\"\n");
  EXPECT_EQ(csv_quoted("a"), "\"a\"");
}

TEST(CsvLine, IsReadBackAsItWas) {
  const std::vector<std::string> cells = {"plain", "b,c", "say \"so\""};
  const auto rows = parse_csv("x,y,z\n" + csv_line(cells), "t.csv");
  ASSERT_TRUE(rows) << rows.error().text();
  EXPECT_EQ(*rows->front().text("x"), "plain");
  EXPECT_EQ(*rows->front().text("y"), "b,c");
  EXPECT_EQ(*rows->front().text("z"), "say \"so\"");
}

TEST(Csv, ARowHasACellForEachColumn) {
  const auto header = std::make_shared<const CsvHeader>(CsvHeader{"t.csv", {"a", "b"}});
  EXPECT_DEATH(CsvRow(header, 7, {{"1", 1}}), "line 7 has 1 cells for 2 columns");
  EXPECT_DEATH(CsvRow(nullptr, 1, {}), "line 1 has 0 cells");
}

}  // namespace
}  // namespace tombolo
