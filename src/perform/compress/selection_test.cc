#include "perform/compress/selection.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/random.h"

namespace tombolo::compress {
namespace {

std::unique_ptr<Selection> selection(std::string_view name, double density) {
  return std::move(make_selection(name, density, 1).value());
}

using Ids = std::vector<uint32_t>;

TEST(Selection, EachTakesWhatItsNameSays) {
  // 64 numbers: block 1 has the largest sum, 16; the largest single ones are at 3, 63 and 40.
  std::vector<float> numbers(64, 0.1f);
  std::fill_n(numbers.begin() + 16, 16, 1.0f);
  numbers[3] = -5;
  numbers[63] = 4;
  numbers[40] = 3;
  EXPECT_EQ(selection("top-k", 3.0 / 64)->select(numbers), (Ids{3, 40, 63}));
  EXPECT_EQ(selection("chunk-top-k", 2.0 / 64)->select(numbers), (Ids{3, 63}));
  for (const char* name : {"blocks", "blocks-exact", "blocks-aimd"}) {
    const Ids ids = selection(name, 0.25)->select(numbers);
    ASSERT_EQ(ids.size(), 16u) << name;
    EXPECT_EQ(ids.front(), 16u) << name;
    EXPECT_EQ(ids.back(), 31u) << name;
  }
  const Ids some = selection("random-k", 0.5)->select(numbers);
  EXPECT_EQ(some.size(), 32u);
  EXPECT_TRUE(std::is_sorted(some.begin(), some.end()));
}

TEST(Selection, AFixedThresholdStaysWhereItWas) {
  const auto fixed = selection("threshold-v", 0.5);
  EXPECT_EQ(fixed->select(std::vector<float>{1, -4, 3, 2}), (Ids{1, 2}));
  EXPECT_EQ(fixed->select(std::vector<float>{3, 3, -3, 2}), (Ids{0, 1, 2}));
  EXPECT_EQ(fixed->select(std::vector<float>{1, 1, 1, 1}), Ids{});
}

TEST(Selection, AimdSwingsAroundItsTarget) {
  // Norms 1 to 100, target 10, so the threshold begins at 91: exactly 10 reach it, and as that is not
  // too many it falls to 81.9 (19 blocks), rises to 86.45 (14), to 91 (10), falls ...
  std::vector<float> numbers(1600, 0.0f);
  for (size_t b = 0; b < 100; ++b) numbers[16 * b] = static_cast<float>(b + 1);
  const auto aimd = selection("blocks-aimd", 0.1);
  std::vector<size_t> blocks;
  for (int step = 0; step < 4; ++step) blocks.push_back(aimd->select(numbers).size() / 16);
  EXPECT_EQ(blocks[0], 10u);
  EXPECT_EQ(blocks[1], 19u);
  EXPECT_EQ(blocks[2], 14u);
}

TEST(Selection, ChunksShareTheTargetOut) {
  // 3 chunks of 4,096 and a rest of 100: 64 of each, and 100 / 64 = 1.6, rounded, of the rest.
  Random random(1);
  std::vector<float> numbers(3 * 4096 + 100);
  for (float& x : numbers) x = static_cast<float>(random.normal());
  const Ids ids = selection("chunk-top-k", 1.0 / 64)->select(numbers);
  EXPECT_EQ(ids.size(), 3u * 64 + 2);
  for (uint32_t chunk = 0; chunk < 3; ++chunk) {
    EXPECT_EQ(
        std::count_if(ids.begin(), ids.end(), [&](uint32_t id) { return id / 4096 == chunk; }), 64);
  }
}

TEST(Selection, NamesAreKnownAndOthersAreNot) {
  for (const std::string& name : selection_names()) {
    EXPECT_TRUE(make_selection(name, 0.1, 1).has_value()) << name;
  }
  const auto none = make_selection("top-q", 0.1, 1);
  ASSERT_FALSE(none.has_value());
  EXPECT_EQ(none.error().message, "unknown selection \"top-q\"");
}

}  // namespace
}  // namespace tombolo::compress
