#include "decide/sweep/sweep_axis.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tombolo::sweep {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::string> texts_of(const std::string& text) {
  const Result<SweepAxis> axis = parse_sweep_axis(text);
  if (!axis) return {axis.error().text()};
  std::vector<std::string> texts;
  for (const Value& value : axis->values) texts.push_back(sweep_text(value));
  return texts;
}

TEST(SweepAxis, ReadsTomlWhereItCanAndTextsElsewhere) {
  const SweepAxis axis = *parse_sweep_axis("a.b = 1, 2.5,true,gpipe, 10 ms,\"1, 2\",[3, 1],../x");
  EXPECT_EQ(axis.path, "a.b");
  EXPECT_EQ(axis.values, (std::vector<Value>{1, 2.5, true, "gpipe", "10 ms", "1, 2",
                                             Value::Array{3, 1}, "../x"}));
}

TEST(SweepAxis, ReadsRanges) {
  EXPECT_THAT(texts_of("p=1..4"), ElementsAre("1", "2", "3", "4"));
  EXPECT_THAT(texts_of("p=10 ms..40 ms/4"), ElementsAre("10 ms", "20 ms", "30 ms", "40 ms"));
  EXPECT_THAT(texts_of("p=10..20 ms/3,50 ms"), ElementsAre("10 ms", "15 ms", "20 ms", "50 ms"));
  EXPECT_THAT(texts_of("p=0.5..2/4"), ElementsAre("0.5", "1", "1.5", "2"));
  // The slash of a unit is not the one before a count.
  EXPECT_THAT(texts_of("p=1 USD/device-hour..2 USD/device-hour/3"),
              ElementsAre("1 USD/device-hour", "1.5 USD/device-hour", "2 USD/device-hour"));
  EXPECT_EQ(*(*parse_sweep_axis("p=2..2")).values[0].get<int64_t>(), 2);
}

// 26 / 499 of the way from 101 to 600 was 126.99999999999999 once.
TEST(SweepAxis, RangesOfWholeNumbersStayWhole) {
  for (const char* text : {"p=101..600", "p=101..600/500"}) {
    const SweepAxis axis = *parse_sweep_axis(text);
    for (const Value& value : axis.values) {
      EXPECT_TRUE(value.get<int64_t>()) << sweep_text(value);
    }
  }
  const SweepAxis axis = *parse_sweep_axis("p=101..600");
  for (int64_t i = 0; i < 500; ++i) EXPECT_EQ(*axis.values[i].get<int64_t>(), 101 + i);
}

TEST(SweepAxis, SaysWhatIsWrong) {
  for (const auto& [text, words] :
       {std::pair("training.micro_batch", "wanted a path"), std::pair("=1,2", "wanted a path"),
        std::pair("a=1,,2", "an empty value"), std::pair("a=[1,2", "not closed"),
        std::pair("a=4..1", "not a range"), std::pair("a=0.5..2", "not a range"),
        std::pair("a=1..9000000", "9000000 values"), std::pair("a=1..2/1", "1 values")}) {
    const Result<SweepAxis> axis = parse_sweep_axis(text);
    ASSERT_FALSE(axis) << text;
    EXPECT_EQ(axis.error().code, ErrorCode::kUnusable);
    EXPECT_THAT(axis.error().text(), HasSubstr(words)) << text;
  }
}

// Two values by three: the second axis varies fastest, as the last digit of 10, 11, 12, 20, 21, 22.
TEST(SweepGrid, LastAxisVariesFastest) {
  const SweepGrid grid =
      *SweepGrid::make({*parse_sweep_axis("tens=1,2"), *parse_sweep_axis("ones=0,1,2")});
  ASSERT_EQ(grid.size(), 6);
  std::vector<int64_t> numbers;
  for (int64_t i = 0; i < grid.size(); ++i) {
    numbers.push_back(*grid.value(i, 0).get<int64_t>() * 10 + *grid.value(i, 1).get<int64_t>());
  }
  EXPECT_THAT(numbers, ElementsAre(10, 11, 12, 20, 21, 22));
}

TEST(SweepGrid, RefusesNothingTwiceAndTooMuch) {
  EXPECT_FALSE(SweepGrid::make({}));
  const SweepAxis axis = *parse_sweep_axis("a=1..1000");
  EXPECT_THAT(SweepGrid::make({axis, axis}).error().text(), HasSubstr("given twice"));
  SweepAxis b = axis, c = axis;
  b.path = "b";
  c.path = "c";
  EXPECT_TRUE(SweepGrid::make({axis, b}));  // a million
  EXPECT_THAT(SweepGrid::make({axis, b, c}).error().text(), HasSubstr("more than 1000000"));
}

TEST(SweepNumber, IsANumberWithItsUnit) {
  const auto unit_of = [](const char* text) {
    const auto number = sweep_number(Value(text));
    return number ? number->unit : std::string("no number");
  };
  EXPECT_EQ(unit_of("10 ms"), "ms");
  EXPECT_EQ(unit_of("2.5 USD/device-hour"), "USD/device-hour");
  EXPECT_EQ(unit_of("1f1b"), "no number");
  EXPECT_EQ(unit_of("gpipe"), "no number");
  EXPECT_EQ(sweep_number(Value(3))->number, 3);
  EXPECT_FALSE(sweep_number(Value(true)));
}

TEST(SweepGridDeathTest, AnAxisIsOneOfTheGrid) {
  const SweepGrid grid = *SweepGrid::make({*parse_sweep_axis("a=1,2")});
  EXPECT_DEATH(grid.value(0, 1), "axis 1 of 1");
}

}  // namespace
}  // namespace tombolo::sweep
