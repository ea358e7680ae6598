#include "perform/generate/kv_cache.h"

#include <algorithm>

#include "base/check.h"

namespace tombolo::generate {

KvShape kv_shape(const model::Model& model, const model::Slice& slice) {
  return {.layers = slice.layers, .width = model.kv_heads * model.head_size()};
}

KvCache::KvCache(KvShape shape, int64_t capacity) : shape_(shape), capacity_(capacity) {
  CHECK(shape.layers > 0 && shape.width > 0 && capacity > 0, "{} layers, {} numbers, {} tokens",
        shape.layers, shape.width, capacity);
  numbers_ = std::make_unique_for_overwrite<float[]>(static_cast<size_t>(bytes()) / sizeof(float));
}

std::span<float> KvCache::rows(int64_t layer, int64_t half, int64_t first, int64_t count) {
  CHECK(layer >= 0 && layer < shape_.layers, "layer {} of {}", layer, shape_.layers);
  CHECK(first >= 0 && count >= 0 && first + count <= capacity_, "tokens {} to {} of {}", first,
        first + count, capacity_);
  const int64_t begin = ((2 * layer + half) * capacity_ + first) * shape_.width;
  return {numbers_.get() + begin, static_cast<size_t>(count * shape_.width)};
}

std::span<float> KvCache::keys(int64_t layer, int64_t first, int64_t count) {
  return rows(layer, 0, first, count);
}

std::span<float> KvCache::values(int64_t layer, int64_t first, int64_t count) {
  return rows(layer, 1, first, count);
}

void KvCache::append(int64_t count) {
  CHECK(count > 0 && tokens_ + count <= capacity_, "{} tokens and {} more, room for {}", tokens_,
        count, capacity_);
  tokens_ += count;
}

void copy_layers(KvCache& from, KvCache& to, int64_t first_layer) {
  const int64_t tokens = from.tokens();
  CHECK(from.shape().width == to.shape().width, "widths {} and {}", from.shape().width,
        to.shape().width);
  CHECK(to.tokens() == 0 || to.tokens() == tokens, "{} tokens and {}", to.tokens(), tokens);
  for (int64_t layer = 0; layer < from.shape().layers; ++layer) {
    const int64_t there = first_layer + layer;
    std::ranges::copy(from.keys(layer, 0, tokens), to.keys(there, 0, tokens).begin());
    std::ranges::copy(from.values(layer, 0, tokens), to.values(there, 0, tokens).begin());
  }
  if (to.tokens() == 0 && tokens > 0) to.append(tokens);
}

}  // namespace tombolo::generate
