// A rank of several that answers prompts together with others, and has no front: layers of prompts that
// the rank before sends, in the gaps of its own training.
#pragma once

#include <memory>

#include "base/clock.h"
#include "perform/generate/later_layers.h"
#include "perform/runtime/filler.h"
#include "perform/worker/shard_ring.h"

namespace tombolo::worker {

class ShardFiller final : public runtime::Filler {
 public:
  ShardFiller(std::unique_ptr<generate::Shard> shard, int64_t kv_bytes, ShardRing ring,
              const Clock& clock)
      : shard_(std::move(shard)), ring_(std::move(ring)), layers_(*shard_, kv_bytes, clock) {}

  bool fill(SimTime until) override { return layers_.work_once(until, to_next()); }
  std::optional<transport::Endpoint::Awaited> awaited() const override { return ring_.awaited(); }
  Status take(const link::Payload& message) override { return layers_.take(message, to_next()); }

 private:
  generate::LaterLayers::Say to_next() const {
    return [this](const generate::ShardMessage& message) { ring_.say(message); };
  }

  std::unique_ptr<generate::Shard> shard_;
  ShardRing ring_;
  generate::LaterLayers layers_;
};

}  // namespace tombolo::worker
