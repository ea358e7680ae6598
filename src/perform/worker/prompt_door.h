// A front's prompts at a worker: requests from a socket go to an engine, and the engine's answers go back.
// Nothing here blocks unless it is told to: a front that does not read is dropped. If the front has named
// a decode worker, caches go there (handover/cache_sender.h); when that is lost the front is dropped too,
// because no decode worker is left to finish its answers.
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

// In which gaps a rank of a run computes prompts, and which ones it refuses at once: those whose first
// token would be late (`within`), judged by how long layers took so far. None is refused while nothing is
// known of that, or of the rank's gaps; nor is one that may wait (generate::Request::flex) while fewer
// others are under way than ranks share the model.
struct PromptGaps {
  const prefill::RankWindows* windows = nullptr;  // outlives this; null: all the time
  SimDuration within{10'000'000'000};
};

// If the shard has only the first layers (generate/engine.h): how many ranks share the model, what sends
// messages to the next of them, and the lowest prompt number that they have not seen yet.
struct OtherShards {
  int64_t shards = 1;
  std::function<void(const generate::ShardMessage&)> say;
  int64_t first_number = 1;
};

class PromptDoor {
 public:
  // Sends the facts of the model at once. Takes ownership of the socket.
  PromptDoor(const generate::Shard& shard, const generate::EngineLimits& limits, int socket,
             handover::HostServices host, PromptGaps gaps = {}, OtherShards others = {});
  ~PromptDoor();

  // Handles the requests that have arrived, and sends what could not be sent before. `wait`: blocks for a
  // request if there is nothing to do. False: the front has gone, or does not read.
  Result<bool> listen(bool wait);

  bool idle() const { return engine_.idle(); }
  void do_layer();
  // Computes a layer, if one is due and should be done by then.
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
