#include "steer/prefill/durations.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tombolo::prefill {
namespace {

using ::testing::HasSubstr;

TEST(Durations, AreLinearBetweenRowsAndRoundedUp) {
  const DurationTable table =
      *DurationTable::make({{100, 1_ms, 2_ms, 10_us}, {200, 3_ms, 2_ms, 20_us}});
  EXPECT_EQ(table.at(100), (PromptTime{{1'000'000}, {2'000'000}, {10'000}}));
  EXPECT_EQ(table.at(150), (PromptTime{{2'000'000}, {2'000'000}, {15'000}}));
  EXPECT_EQ(table.at(1), table.at(100));
  EXPECT_EQ(table.at(133).layer.ns, 1'660'000);
  EXPECT_EQ(table.tokens_max(), 200);
  EXPECT_EQ(table.layer_min().ns, 1'000'000);
  // 32 layers over 4 shards: 32 + 2 ms and three transfers.
  EXPECT_EQ(table.at(100).total(32, 4).ns, 34'030'000);
}

TEST(Durations, RefuseWhatCannotBe) {
  const auto text_of = [](std::vector<DurationTable::Row> rows) {
    const auto table = DurationTable::make(std::move(rows));
    return table ? std::string("no error") : table.error().text();
  };
  EXPECT_THAT(text_of({}), HasSubstr("without a row"));
  EXPECT_THAT(text_of({{0, 1_ms, 0_s, 0_s}}), HasSubstr("ascend from at least 1"));
  EXPECT_THAT(text_of({{2, 1_ms, 0_s, 0_s}, {2, 2_ms, 0_s, 0_s}}), HasSubstr("must ascend"));
  EXPECT_THAT(text_of({{2, 0_s, 0_s, 0_s}}), HasSubstr("take some time"));
  EXPECT_THAT(text_of({{2, 4000_s, 0_s, 0_s}}), HasSubstr("an hour"));
  EXPECT_THAT(text_of({{2, 2_ms, 0_s, 0_s}, {3, 1_ms, 0_s, 0_s}}), HasSubstr("less than 2 tokens"));
}

}  // namespace
}  // namespace tombolo::prefill
