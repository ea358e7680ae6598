// Prompts at a rank that has some layers of their model, but not the first ones: hidden states come
// from the rank before and are passed to the next, in the order in which they came, a layer at a time. The
// rank with the first layers (engine.h) admits, draws the tokens and says when a prompt has ended.
//
// Memory: the first rank counts a prompt with the layers of the largest shard and keeps no more passes
// under way than engine.h says, so what is admitted there has room here, where the budget is the same.
// A rank that sends more is an error. A cache that is handed over to a decode worker counts here until it has
// been sent, and at the first rank until all have: each rank reports it after the rank before has.
//
// For one thread. Time comes from the clock that is passed in.
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "perform/generate/engine.h"
#include "perform/generate/layer_pace.h"
#include "perform/generate/shard.h"
#include "perform/generate/shard_message.h"

namespace tombolo::generate {

class LaterLayers {
 public:
  // `shard` has no embedding, and outlives this. `kv_bytes`: of all caches together.
  LaterLayers(const Shard& shard, int64_t kv_bytes, const Clock& clock);
  ~LaterLayers();

  // Sends to the next rank; on the last rank, to the first.
  using Say = std::function<void(const ShardMessage&)>;
  // Fails on what the rank before cannot have sent: then do not accept anything more from it.
  Status take(std::span<const std::byte> message, const Say& say);
  Status take(ShardMessage message, const Say& say);

  // Caches to send to the decode worker, since the last call; the caller calls left() when one is sent.
  std::vector<HandedOver> take_handed_over() { return std::exchange(handed_over_, {}); }
  void left(int64_t prompt, const Say& say);

  bool idle() const { return turns_.empty(); }
  // Computes a layer, if one is due that should end by `until` (layer_pace.h). False: none was computed.
  bool work_once(SimTime until, const Say& say);

  int64_t kv_bytes_used() const { return kv_bytes_used_; }
  int64_t prompts() const { return static_cast<int64_t>(prompts_.size()); }

 private:
  struct Prompt {
    int64_t room = 0;                     // tokens
    std::unique_ptr<KvCache> cache = {};  // from its first layer on
    bool waiting = false;                 // it has a turn
  };
  struct Turn {
    ShardMessage hidden;
    std::unique_ptr<Pass> pass = {};  // once it has begun
  };

  struct Leaving {
    int64_t bytes = 0;         // until it has left
    bool sent_before = false;  // all ranks before have sent theirs
  };

  Status take_hidden(ShardMessage hidden);
  Status hand_over(const ShardMessage& message);
  Status take_sent(const ShardMessage& message, const Say& say);
  void drop(int64_t prompt);
  void drop_all();
  Status do_layer(Turn& turn);
  void finish(const Say& say);

  const Shard& shard_;
  int64_t kv_bytes_ = 0;
  const Clock& clock_;
  LayerPace pace_;
  std::map<int64_t, Prompt> prompts_;
  std::deque<Turn> turns_;              // next pass first; their caches are in prompts_
  std::map<int64_t, Leaving> leaving_;  // by prompt
  std::vector<HandedOver> handed_over_;
  int64_t kv_bytes_used_ = 0;
};

}  // namespace tombolo::generate
