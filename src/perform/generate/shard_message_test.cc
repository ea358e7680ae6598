#include "perform/generate/shard_message.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

namespace tombolo::generate {
namespace {

using ::testing::HasSubstr;

const ShardMessage kSomeRows{
    .prompt = 7, .past = 3, .room = 9, .rows = 2, .numbers = {1, 2, 3, 4, 5, 6}};

// What decoding says of a message whose byte at `at` is another.
std::string shard_refusal(std::vector<std::byte> bytes, size_t at, uint8_t value) {
  bytes.at(at) = std::byte{value};
  const auto message = decode_shard_message(bytes);
  return message ? "" : message.error().message;
}

TEST(ShardMessage, GoesThroughBytes) {
  const ShardMessage messages[] = {
      kSomeRows,
      {.word = ShardWord::kLogits, .prompt = 7, .rows = 1, .numbers = {0.5F, -1}},
      {.word = ShardWord::kDrop, .prompt = 7},
      {.word = ShardWord::kDropAll},
      {.word = ShardWord::kFailed, .prompt = 7, .text = "no memory"},
      {.word = ShardWord::kHandOver, .prompt = 7, .first_token = 5, .id = 3},
      {.word = ShardWord::kHandOver, .prompt = 7, .first_token = 5, .id = -3},
      {.word = ShardWord::kSent, .prompt = 7},
      {.word = ShardWord::kDecode, .prompt = 7, .text = "there"}};
  for (const ShardMessage& message : messages) {
    const auto again = decode_shard_message(encode(message));
    ASSERT_TRUE(again) << again.error().text();
    EXPECT_EQ(*again, message);
  }
  EXPECT_EQ(encode(kSomeRows).size(), 40 + 6 * 4);
  const ShardMessage long_text{.word = ShardWord::kFailed, .text = std::string(5000, 'x')};
  EXPECT_EQ(decode_shard_message(encode(long_text))->text.size(), kShardTextMax);
}

// Every length before it is used.
TEST(ShardMessage, BelievesNothing) {
  const auto good = encode(kSomeRows);
  EXPECT_THAT(decode_shard_message({}).error().message, HasSubstr("too short"));
  EXPECT_THAT(shard_refusal(good, 0, 'X'), HasSubstr("something else"));
  EXPECT_THAT(shard_refusal(good, 4, 0), HasSubstr("something else"));
  EXPECT_THAT(shard_refusal(good, 4, 9), HasSubstr("something else"));
  EXPECT_THAT(shard_refusal(good, 4, 3), HasSubstr("rows of what"));      // a drop
  EXPECT_THAT(shard_refusal(good, 16, 8), HasSubstr("out of range"));     // 8 + 2 of 9 tokens
  EXPECT_THAT(shard_refusal(good, 23, 0xFF), HasSubstr("out of range"));  // past
  EXPECT_THAT(shard_refusal(good, 31, 0xFF), HasSubstr("out of range"));  // room
  EXPECT_THAT(shard_refusal(good, 32, 0), HasSubstr("out of range"));     // rows
  EXPECT_THAT(shard_refusal(good, 32, 3), HasSubstr("another length"));
  EXPECT_THAT(shard_refusal(good, 35, 0xFF), HasSubstr("out of range"));
  EXPECT_THAT(shard_refusal(good, 36, 0), HasSubstr("no length"));
  EXPECT_THAT(shard_refusal(good, 39, 0xFF), HasSubstr("no length"));
  const auto logits = encode({.word = ShardWord::kLogits, .rows = 1, .numbers = {1, 2}});
  EXPECT_THAT(shard_refusal(logits, 32, 2), HasSubstr("other than one"));
  EXPECT_THAT(shard_refusal(logits, 24, 1), HasSubstr("tokens of what"));
  auto drop = encode({.word = ShardWord::kDrop});
  EXPECT_THAT(shard_refusal(drop, 36, 1), HasSubstr("rows of what"));
  EXPECT_THAT(shard_refusal(encode({.word = ShardWord::kSent}), 16, 1),
              HasSubstr("tokens of what"));
  const auto given = encode({.word = ShardWord::kHandOver, .first_token = 5, .id = 3});
  EXPECT_THAT(shard_refusal(given, 23, 0xFF), HasSubstr("out of range"));
  drop.push_back({});
  EXPECT_THAT(decode_shard_message(drop).error().message, HasSubstr("too long"));
}

}  // namespace
}  // namespace tombolo::generate
