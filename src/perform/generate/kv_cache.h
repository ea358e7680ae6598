// Keys and values that attention reads again for every later token (KV cache), of the layers that
// a shard holds.
//
// Of each layer: keys [tokens, width], then values [tokens, width], float32, width = kv_heads x
// head size. Keys are rotated already. The rows of a prefix lie in one piece, so that what is
// handed over is a span per layer and kind, and nothing is packed.
//
// bytes = 2 x layers x tokens x width x 4, exactly: 32 layers of 8 heads of 128 take 256 KiB a token.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "spec/model/model.h"

namespace tombolo::generate {

struct KvShape {
  int64_t layers = 0;
  int64_t width = 0;  // numbers of a key, all heads: kv_heads x head size

  int64_t bytes(int64_t tokens) const {
    return 2 * layers * tokens * width * static_cast<int64_t>(sizeof(float));
  }
  bool operator==(const KvShape&) const = default;
};
KvShape kv_shape(const model::Model& model, const model::Slice& slice);

class KvCache {
 public:
  // Room for `capacity` tokens, allocated at once: admission has counted it.
  KvCache(KvShape shape, int64_t capacity);

  const KvShape& shape() const { return shape_; }
  int64_t capacity() const { return capacity_; }
  int64_t bytes() const { return shape_.bytes(capacity_); }
  // Tokens whose keys and values are complete in all layers.
  int64_t tokens() const { return tokens_; }

  // The rows of `count` tokens from `first` on, in layer `layer` of the shard. Up to the capacity:
  // a pass writes rows beyond tokens() before it appends them.
  std::span<float> keys(int64_t layer, int64_t first, int64_t count);
  std::span<float> values(int64_t layer, int64_t first, int64_t count);

  // `count` more tokens are complete: a pass has been through all layers, or rows were received.
  void append(int64_t count);

 private:
  std::span<float> rows(int64_t layer, int64_t half, int64_t first, int64_t count);

  KvShape shape_;
  int64_t capacity_ = 0;
  int64_t tokens_ = 0;
  std::unique_ptr<float[]> numbers_;
};

// Copies the keys and values of `from` into `to`, from layer `first_layer` of `to` on: so the caches
// of several shards become that of a whole model. `to` has no tokens yet, or as many as `from`.
void copy_layers(KvCache& from, KvCache& to, int64_t first_layer);

}  // namespace tombolo::generate
