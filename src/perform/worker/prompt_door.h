// A front's prompts at a worker: what comes through a socket goes to an engine, and what the engine
// says goes back. Nothing here blocks unless it is told to: a front that does not read is given up. Where
// the front has named a decode worker, caches go there (handover/cache_sender.h); when that one is lost,
// so is the front, which has nobody to finish its answers.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/clock.h"
#include "perform/generate/front_message.h"
#include "perform/generate/shard_message.h"
#include "perform/handover/cache_sender.h"
#include "steer/prefill/rank_windows.h"

namespace tombolo::worker {

// When a rank of a run answers, and what is refused at once: a prompt whose first token would not be
// there in time, by how long layers took so far. As long as nothing is known of that, or of the
// rank's gaps, none is; nor is one that may wait (generate::Request::flex) while others under way are
// fewer than the ranks that share the model.
struct PromptGaps {
  const prefill::RankWindows* windows = nullptr;  // outlives whoever has this; null: all the time
  SimDuration within{10'000'000'000};
};

// Where the shard has the first layers only (generate/engine.h): how many ranks share the model, who takes
// what goes to the next of them, and the first number of a prompt that they have not heard yet.
struct OtherShards {
  int64_t shards = 1;
  std::function<void(const generate::ShardMessage&)> say;
  int64_t first_number = 1;
};

class PromptDoor {
 public:
  // Says at once which model is there. The socket is this object's from now on.
  PromptDoor(const generate::Shard& shard, const generate::EngineLimits& limits, int socket,
             handover::HostServices host, PromptGaps gaps = {}, OtherShards others = {});
  ~PromptDoor();

  // Takes what has come, and sends what could not be sent before. `wait`: for something to come,
  // where there is nothing to do. False: the front has gone, or does not read.
  Result<bool> listen(bool wait);

  bool idle() const { return engine_.idle(); }
  void do_layer();
  // A layer, if one is due and should be over by then.
  bool do_layer_until(SimTime until);

  // From the last of the other ranks.
  Status arrive(const link::Payload& message);
  int64_t next_number() const { return engine_.next_number(); }

 private:
  static constexpr size_t kOutboxMax = size_t{4} << 20;  // what a front may leave unread

  void take(const generate::FrontMessage& message);
  std::optional<generate::Refused> admit(const generate::Request& request);
  generate::WorkerFacts model_facts(const generate::EngineLimits& limits) const;
  void take_decode_place(const generate::DecodePlace& place);
  void hand_over();
  void hear_sender();
  void say_linked();
  void give_up(const std::string& why);
  void say(const generate::WorkerMessage& message);
  void flush();
  bool fits_into_gaps(const generate::Request& request);

  int socket_;
  const generate::ShardFacts& facts_;
  const handover::HostServices host_;
  PromptGaps gaps_;
  OtherShards others_;
  generate::Engine engine_;
  std::unique_ptr<handover::CacheSender> sender_;
  generate::ShardMessage decode_;  // where the decode worker is, for the other ranks
  bool linked_ = false;            // all ranks are, to it
  generate::Lines lines_;
  std::string outbox_;
  bool gone_ = false;
};

}  // namespace tombolo::worker
