#include "perform/compress/merge.h"

#include <gtest/gtest.h>

#include "base/random.h"

namespace tombolo::compress {
namespace {

Blocks constant_blocks(int64_t length, std::vector<uint32_t> ids, std::vector<float> values) {
  Blocks blocks{.length = length, .ids = std::move(ids)};
  for (const float value : values) blocks.values.insert(blocks.values.end(), kBlock, value);
  return blocks;
}

TEST(Merge, AddsWhatMeetsAndCountsWhoSentIt) {
  const std::vector<Blocks> updates = {constant_blocks(160, {1, 4}, {1, 2}),
                                       constant_blocks(160, {0, 4, 9}, {10, 20, 30})};
  Merged merged;
  merge(updates, {}, merged);
  EXPECT_EQ(merged.blocks, constant_blocks(160, {0, 1, 4, 9}, {10, 1, 22, 30}));
  EXPECT_EQ(merged.senders, (std::vector<uint16_t>{1, 1, 2, 1}));
  divide_by_senders(merged);
  EXPECT_EQ(merged.blocks, constant_blocks(160, {0, 1, 4, 9}, {10, 1, 11, 30}));
  merge(updates, std::vector<float>{2, 0.5f}, merged);
  EXPECT_EQ(merged.blocks, constant_blocks(160, {0, 1, 4, 9}, {5, 2, 14, 15}));
}

TEST(Merge, EqualsAddingDenseTensorsInOrder) {
  Random random(1);
  for (int round = 0; round < 100; ++round) {
    const auto length = static_cast<int64_t>(1 + random.below(2000));
    std::vector<Blocks> updates(1 + random.below(6));
    std::vector<float> sum(static_cast<size_t>(length), 0.0f);
    for (Blocks& update : updates) {
      update.length = length;
      for (int64_t b = 0; b < blocks_of(length); ++b) {
        if (random.below(4) != 0) continue;
        update.ids.push_back(static_cast<uint32_t>(b));
        for (int64_t i = 0; i < kBlock; ++i) {
          const bool inside = b * kBlock + i < length;
          update.values.push_back(inside ? static_cast<float>(random.normal()) : 0.0f);
        }
      }
      const std::vector<float> dense = update.dense();
      for (size_t i = 0; i < sum.size(); ++i) sum[i] += dense[i];
    }
    Merged merged;
    merge(updates, {}, merged);
    EXPECT_EQ(merged.blocks.dense(), sum);
  }
}

TEST(MergeDeathTest, WantsOneTensorAndAscendingBlocks) {
  Merged merged;
  EXPECT_DEATH(merge({}, {}, merged), "0 updates");
  const std::vector<Blocks> two = {constant_blocks(16, {0}, {1}), constant_blocks(32, {0}, {1})};
  EXPECT_DEATH(merge(two, {}, merged), "updates of 32 and 16 elements");
  const std::vector<Blocks> back = {constant_blocks(64, {2, 1}, {1, 1})};
  EXPECT_DEATH(merge(back, {}, merged), "block 1 after 2");
}

}  // namespace
}  // namespace tombolo::compress
