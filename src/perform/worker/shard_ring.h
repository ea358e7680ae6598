// Ranks that share the layers of a prompt's model, in a ring over the links of training
// (generate/shard_message.h). Their messages have a lower priority than all of training's.
#pragma once

#include <cstdint>
#include <vector>

#include "perform/generate/shard.h"
#include "perform/generate/shard_message.h"
#include "perform/kernels/messenger.h"

namespace tombolo::worker {

// The neighbours of `rank`, which is one of `ranks`: the one before and the one after it, which may
// be the same rank. None if it is alone.
std::vector<int32_t> ring_peers(const std::vector<int32_t>& ranks, int32_t rank);

class ShardRing {
 public:
  // `rank` is one of `ranks`, which has two at least; the endpoint outlives this.
  ShardRing(std::vector<int32_t> ranks, int32_t rank, transport::Endpoint& endpoint);

  bool first() const { return own_ == 0; }
  int32_t place() const { return static_cast<int32_t>(own_); }  // 0: the first
  int64_t shards() const { return static_cast<int64_t>(ranks_.size()); }
  model::Slice slice(const model::Model& model) const;
  int64_t layers_max(const model::Model& model) const;  // of the largest shard

  // The messages of the rank before.
  transport::Endpoint::Awaited awaited() const;
  // Sends to the next rank. Its loss is not reported here, but by the ranks that wait for it.
  void say(const generate::ShardMessage& message) const;

 private:
  std::vector<int32_t> ranks_;
  size_t own_ = 0;
  transport::Endpoint& endpoint_;
};

}  // namespace tombolo::worker
