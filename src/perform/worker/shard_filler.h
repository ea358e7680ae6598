// A rank that answers prompts together with others, and has no front itself: computes layers of prompts that the
// previous rank sends, in the gaps of its own training. Keys and values go from here to the decode worker, if the front
// has named one.
#pragma once

#include <memory>

#include "base/clock.h"
#include "perform/generate/later_layers.h"
#include "perform/handover/cache_sender.h"
#include "perform/stage/filler.h"
#include "perform/worker/shard_ring.h"

namespace tombolo::worker {

class ShardFiller final : public stage::Filler {
 public:
  ShardFiller(std::unique_ptr<generate::Shard> shard, int64_t kv_bytes, ShardRing ring,
              handover::HostServices host)
      : shard_(std::move(shard)),
        ring_(std::move(ring)),
        host_(std::move(host)),
        layers_(*shard_, kv_bytes, host_.threads) {}

  bool fill(SimTime until) override;
  std::optional<transport::Endpoint::Awaited> awaited() const override { return ring_.awaited(); }
  Status take(const link::Payload& bytes) override;

 private:
  generate::LaterLayers::Say to_next() const {
    return [this](const generate::ShardMessage& message) { ring_.say(message); };
  }
  Status call_decode_worker(generate::ShardMessage message);
  void hear_sender();

  std::unique_ptr<generate::Shard> shard_;
  ShardRing ring_;
  const handover::HostServices host_;
  generate::LaterLayers layers_;
  // To the decode worker that `decode_` names. The message is passed on once that worker has answered.
  std::unique_ptr<handover::CacheSender> sender_;
  generate::ShardMessage decode_;
};

}  // namespace tombolo::worker
