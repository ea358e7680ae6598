#include "perform/generate/kv_cache.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace tombolo::generate {
namespace {

// Llama 3 8B: 32 layers, 8 key heads of 128: 2 x 32 x 8 x 128 x 4 bytes a token.
TEST(KvCache, BytesAreCountedExactly) {
  const model::Model m = model::preset("llama3-8b").value();
  const KvShape whole = kv_shape(m, model::stage_slice(m, 1, 0));
  EXPECT_EQ(whole.bytes(1), 262'144);
  EXPECT_EQ(whole.bytes(8192), int64_t{2} << 30);
  // Of eight shards of four layers each an eighth.
  EXPECT_EQ(kv_shape(m, {.first_layer = 4, .layers = 4}).bytes(1), 262'144 / 8);
}

TEST(KvCache, RowsOfATokenAreItsOwn) {
  KvCache cache({.layers = 2, .width = 3}, 4);
  EXPECT_EQ(cache.bytes(), 2 * 2 * 4 * 3 * 4);
  float next = 0;
  for (int64_t layer = 0; layer < 2; ++layer) {
    for (float& number : cache.keys(layer, 0, 4)) number = next++;
    for (float& number : cache.values(layer, 0, 4)) number = next++;
  }
  EXPECT_EQ(cache.keys(0, 1, 2).front(), 3);     // the second token's
  EXPECT_EQ(cache.values(0, 0, 1).front(), 12);  // behind 4 x 3 keys
  EXPECT_EQ(cache.keys(1, 3, 1).back(), 35);
  EXPECT_EQ(cache.tokens(), 0);
  cache.append(3);
  EXPECT_EQ(cache.tokens(), 3);
}

// Layers 0 and 1 from one shard, 2 from another, into a cache with room for more tokens.
TEST(KvCache, ShardsBecomeTheCacheOfAWholeModel) {
  KvCache first({.layers = 2, .width = 1}, 2), second({.layers = 1, .width = 1}, 2);
  KvCache whole({.layers = 3, .width = 1}, 5);
  for (int64_t layer = 0; layer < 2; ++layer) {
    std::ranges::fill(first.keys(layer, 0, 2), static_cast<float>(10 + layer));
    std::ranges::fill(first.values(layer, 0, 2), static_cast<float>(20 + layer));
  }
  std::ranges::fill(second.keys(0, 0, 2), 12.0F);
  std::ranges::fill(second.values(0, 0, 2), 22.0F);
  first.append(2);
  second.append(2);
  copy_layers(first, whole, 0);
  copy_layers(second, whole, 2);
  EXPECT_EQ(whole.tokens(), 2);
  for (int64_t layer = 0; layer < 3; ++layer) {
    EXPECT_EQ(whole.keys(layer, 1, 1).front(), static_cast<float>(10 + layer));
    EXPECT_EQ(whole.values(layer, 0, 1).front(), static_cast<float>(20 + layer));
  }
}

TEST(KvCacheDeathTest, HasNoRoomBeyondItsCapacity) {
  KvCache cache({.layers = 1, .width = 1}, 4);
  cache.append(3);
  EXPECT_DEATH(cache.append(2), "3 tokens and 2 more, room for 4");
  EXPECT_DEATH(static_cast<void>(cache.keys(0, 3, 2)), "tokens 3 to 5 of 4");
  EXPECT_DEATH(static_cast<void>(cache.keys(1, 0, 1)), "layer 1 of 1");
}

}  // namespace
}  // namespace tombolo::generate
