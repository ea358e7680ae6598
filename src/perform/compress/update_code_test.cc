#include "perform/compress/update_code.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>

#include "base/random.h"

namespace tombolo::compress {
namespace {

// Any codes but bf16's not finite ones.
PackedBlocks with_codes(int64_t length, Values values, std::vector<uint32_t> ids, Random& random) {
  PackedBlocks update{.length = length, .values = values};
  update.resize(ids.size());
  update.ids = std::move(ids);
  for (uint8_t& code : update.codes) code = static_cast<uint8_t>(random.below(127));
  for (uint8_t& scale : update.scales) scale = static_cast<uint8_t>(random.below(256));
  return update;
}

PackedBlocks read_back(const PackedBlocks& update) {
  const auto decoded = decode(encode(update), update.length, blocks_of(update.length));
  EXPECT_TRUE(decoded.has_value()) << (decoded ? "" : decoded.error().text());
  return decoded.value_or(PackedBlocks{});
}

TEST(UpdateCode, HasTheBytesThatTheHeaderSays) {
  // Blocks 0, 2 and 302 leave out 0, 1 and 299 = 2 * 128 + 43: bytes 0, 1, 43 + 128, 2.
  PackedBlocks update{.length = 16 * 400, .values = Values::kTwoBit, .ids = {0, 2, 302}};
  update.scales = {7, 8, 9};
  update.codes = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
  const std::vector<std::byte> message = encode(update);
  const std::vector<uint8_t> expected = {'T', 'b', 'S', 'U', 1, 3, 0, 0, 0, 25, 0,  0,   0, 0, 0,
                                         0,   3,   0,   0,   0, 4, 0, 0, 0, 0,  1,  171, 2, 7, 8,
                                         9,   1,   2,   3,   4, 5, 6, 7, 8, 9,  10, 11,  12};
  ASSERT_EQ(message.size(), expected.size());
  EXPECT_EQ(std::memcmp(message.data(), expected.data(), expected.size()), 0);
  EXPECT_EQ(read_back(update), update);
}

// The published engine packs indices in 16 signed bits and corrupts tensors above 32,767 elements.
TEST(UpdateCode, KeepsEveryIndexOfTensorsAroundSixteenBits) {
  Random random(1);
  for (const int64_t edge : {int64_t{32767}, int64_t{65535}, 32767 * kBlock, 65535 * kBlock}) {
    for (int64_t length = edge - 40; length <= edge + 40; ++length) {
      const auto last = static_cast<uint32_t>(blocks_of(length) - 1);
      const PackedBlocks some = with_codes(length, Values::kInt4, {0, 1, last - 1, last}, random);
      EXPECT_EQ(read_back(some), some);
    }
  }
  std::vector<uint32_t> all(static_cast<size_t>(blocks_of(65535)));
  for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<uint32_t>(i);
  const PackedBlocks whole = with_codes(65535, Values::kBf16, all, random);
  EXPECT_EQ(read_back(whole), whole);
}

TEST(UpdateCode, KeepsAnyBlocksOfTensorsFromOneToABillionIndices) {
  Random random(2);
  for (int round = 0; round < 400; ++round) {
    // Lengths evenly over their orders of magnitude.
    const auto digits = static_cast<double>(random.below(1000)) / 1000 * 9;
    const auto length = std::max<int64_t>(1, static_cast<int64_t>(std::pow(10.0, digits)));
    const int64_t blocks = blocks_of(round == 0 ? 1'000'000'000 : length);
    std::set<uint32_t> ids;
    for (uint64_t i = random.below(200); i > 0; --i) {
      ids.insert(static_cast<uint32_t>(random.below(static_cast<uint64_t>(blocks))));
    }
    if (round % 3 == 0) ids.insert(static_cast<uint32_t>(blocks - 1));
    const auto values = static_cast<Values>(random.below(kValuesCount));
    const PackedBlocks update =
        with_codes(round == 0 ? 1'000'000'000 : length, values, {ids.begin(), ids.end()}, random);
    EXPECT_EQ(read_back(update), update);
  }
  const PackedBlocks largest = with_codes(kLengthMax, Values::kInt8, {0, UINT32_MAX}, random);
  EXPECT_EQ(read_back(largest), largest);
}

TEST(UpdateCode, TakesTheBytesPerElementThatItPromises) {
  // 1 % of the blocks at random places: a gap of 100 on average, 1.28 bytes for its number.
  Random random(3);
  std::vector<uint32_t> ids;
  for (uint32_t b = 0; b < 2'000'000; ++b) {
    if (random.below(100) == 0) ids.push_back(b);
  }
  const auto bytes_per_element = [&](Values values) {
    const PackedBlocks update = with_codes(32'000'000, values, ids, random);
    return static_cast<double>(encode(update).size()) / static_cast<double>(ids.size() * kBlock);
  };
  EXPECT_LT(bytes_per_element(Values::kBf16), 2.1);
  EXPECT_LT(bytes_per_element(Values::kInt8), 1.2);
  EXPECT_LT(bytes_per_element(Values::kInt4), 0.65);
  EXPECT_LT(bytes_per_element(Values::kTwoBit), 0.4);
}

std::string refusal(std::vector<std::byte> message, int64_t length = 6400, int64_t most = 400) {
  const auto decoded = decode(message, length, most);
  return decoded ? "accepted" : decoded.error().message;
}

TEST(UpdateCode, SaysWhyItRefuses) {
  Random random(4);
  const std::vector<std::byte> good =
      encode(with_codes(6400, Values::kInt8, {3, 200, 399}, random));
  const auto with = [&](size_t at, int byte) {
    std::vector<std::byte> changed = good;
    changed[at] = static_cast<std::byte>(byte);
    return changed;
  };
  EXPECT_EQ(refusal(good), "accepted");
  EXPECT_EQ(refusal({}), "a sparse update of 0 bytes is shorter than its header");
  EXPECT_EQ(refusal(with(0, 0)), "a sparse update does not begin like one");
  EXPECT_EQ(refusal(with(4, 2)), "a sparse update has version 2, this program knows 1");
  EXPECT_EQ(refusal(with(5, 4)), "a sparse update has values of kind 4 and 0");
  EXPECT_EQ(refusal(good, 6401), "a sparse update is of a tensor of 6400 elements, not 6401");
  EXPECT_EQ(refusal(good, 6400, 2), "a sparse update has 3 blocks, at most 2 are due");
  EXPECT_EQ(refusal(with(16, 4)), "a sparse update of 4 blocks has 80 bytes instead of 97");
  // 3, 196 = 68 + 128 and 1, 198 = 70 + 128 and 1: five bytes from 24 on.
  EXPECT_EQ(refusal(with(27, 199)), "a sparse update has block 400 of a tensor of 400 blocks");
  EXPECT_EQ(refusal(with(28, 0)), "a sparse update writes a block's number longer than needed");
  EXPECT_EQ(refusal(with(28, 129)), "a sparse update ends within a block's number");
  EXPECT_EQ(refusal(with(27, 5)), "a sparse update has 1 bytes behind its last number");
  std::vector<std::byte> shorter = good;
  shorter.pop_back();
  EXPECT_EQ(refusal(shorter), "a sparse update of 3 blocks has 79 bytes instead of 80");
}

TEST(UpdateCode, RefusesValuesThatAreNotFinite) {
  PackedBlocks update{.length = 16, .values = Values::kBf16, .ids = {0}};
  update.codes.assign(32, 0);
  update.codes[9] = 0x7f;
  update.codes[8] = 0x7f;  // 0x7f7f: the largest
  EXPECT_EQ(read_back(update), update);
  update.codes[8] = 0x80;  // 0x7f80: infinity
  EXPECT_EQ(refusal(encode(update), 16, 1), "a sparse update has a value that is not finite");
}

TEST(UpdateCodeDeathTest, EncodesOnlyWhatAscends) {
  Random random(5);
  EXPECT_DEATH(encode(with_codes(6400, Values::kBf16, {5, 5}, random)), "block 5 after 5");
  EXPECT_DEATH(encode(with_codes(6400, Values::kBf16, {400}, random)), "block 400 of a tensor");
}

}  // namespace
}  // namespace tombolo::compress
