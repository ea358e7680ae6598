// Prompts that were admitted, and their answers token by token: a layer at a time, so that the
// caller can do other work (training) in between.
//
// The KV cache of a prompt and of the longest answer that it asks for is allocated when it is admitted,
// or the prompt is refused. Nothing grows later, and no prompt is ever evicted.
//
// Passes take turns, prompt by prompt: one pass of each, a prefill or a token. A pass that has begun
// is finished before another's begins, so there is one set of activations at a time.
//
// A shard without the head has the first layers of a model whose others are elsewhere
// (later_layers.h): then a pass leaves when its layers are done, others are computed meanwhile, and
// logits come back. Passes under way have at most kAwayBytesMax of hidden states, or are one: that
// bounds what any rank and any link holds of them.
//
// For one thread. Time comes from the clock that is passed in.
#pragma once

#include <array>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/fields.h"
#include "base/random.h"
#include "perform/generate/layer_pace.h"
#include "perform/generate/sampling.h"
#include "perform/generate/shard.h"
#include "perform/generate/shard_message.h"

namespace tombolo::generate {

// Which engine computes the tokens of an answer after the first one. A prompt may be read in the gaps
// of a training and its answer written by a decode worker, which has nothing else to do: then both
// get the same request, and keys and values go from one to the other (kv_rows.h).
enum class Share {
  kWhole,    // the same engine
  kPrefill,  // another: this one ends with the first token, and hands its cache over
  kDecode,   // this one, once that cache is here
};
constexpr auto enum_names(Share) {
  return std::to_array<EnumName<Share>>(
      {{Share::kWhole, "whole"}, {Share::kPrefill, "prefill"}, {Share::kDecode, "decode"}});
}

struct Request {
  int64_t id = 0;               // chosen by the client; unique among those in use
  std::vector<int64_t> tokens;  // the prompt, one at least
  int64_t tokens_max = 1;       // of the answer
  std::vector<int64_t> stop;    // ends with one of these, which is not part of the answer
  int64_t tokens_min = 0;       // of the answer: until then none of `stop` is drawn
  Sampling sampling;
  Share share = Share::kWhole;
  bool flex = false;  // may wait: admitted only into half of all limits if others are under way

  bool operator==(const Request&) const = default;
};

enum class Refusal {
  kBusy,     // no memory or too many requests now; retry later
  kTooLong,  // prompt and answer are longer than the model's positions, or than all of the memory
  kInvalid,  // no prompt, ids outside the vocabulary, an id that is in use
};
constexpr auto enum_names(Refusal) {
  return std::to_array<EnumName<Refusal>>(
      {{Refusal::kBusy, "busy"}, {Refusal::kTooLong, "too_long"}, {Refusal::kInvalid, "invalid"}});
}
struct Refused {
  Refusal why = Refusal::kBusy;
  std::string message;
};

// What comes next of an answer. An engine gives the first four; backends that pass them on give all.
enum class StepKind {
  kToken,
  kStop,    // the end: one of the request's stop tokens came
  kLength,  // the end: as many tokens as were asked for
  kFailed,  // the end: a message says why
  kLost,  // the end: the worker has gone, or has no room any more; the prompt could be asked again
  kWaiting,  // nothing yet
};
struct EngineEvent {
  int64_t id = 0;
  StepKind kind = StepKind::kToken;
  int64_t token = 0;         // of kToken
  std::string message = {};  // of kFailed
};

// A prompt that was read here and is answered elsewhere. Its cache counts until it is released.
struct HandedOver {
  int64_t id = 0;
  int64_t first_token = 0;  // of the answer; already given
  std::unique_ptr<KvCache> cache;
  int64_t number = 0;  // among the ranks that read it
  int64_t first_layer = 0;
  int64_t layers = 0;  // of the model
};

struct EngineLimits {
  int64_t kv_bytes = int64_t{1} << 30;  // of all caches together
  int64_t requests_max = 64;            // at once
  // How many layers a cache is counted with: those of the largest shard, if each of several ranks has a
  // budget of kv_bytes. 0: the shard's own.
  int64_t layers_counted = 0;
};

inline constexpr int64_t kAwayBytesMax = int64_t{256} << 20;

class Engine {
 public:
  // `shard` is a whole model, or has its first layers; it outlives the engine. `first_number`: of
  // prompts, in messages to other ranks, which never hear a number twice.
  Engine(const Shard& shard, EngineLimits limits, const Clock& clock, int64_t first_number = 1);
  ~Engine();

  // Nothing: the request is admitted.
  std::optional<Refused> admit(Request request);
  void cancel(int64_t id);                     // unknown id: ignored, it may just have ended
  bool idle() const { return work_.empty(); }  // passes under way do not count

  // Computes one layer. CHECKs that one is due. Resulting events go to `tell`, which must not call
  // the engine.
  using Tell = std::function<void(const EngineEvent&)>;
  void do_layer(const Tell& tell);

  // Computes a layer, if one is due that should end by `until` (layer_pace.h). False: none was computed.
  bool work_once(SimTime until, const Tell& tell);
  // Calls work_once() until it returns false. Returns how many layers were computed.
  int64_t work_until(SimTime until, const Tell& tell);

  // Tokens of the next pass of each prompt, or of the one that has begun, in the order of turns.
  std::vector<int64_t> turns() const;
  SimDuration expect(const LayerWork& work) const { return pace_.expect(work); }
  void doubt() { pace_.doubt(); }  // layer_pace.h

  // For the rank with the next layers, in order, since the last call.
  std::vector<ShardMessage> take_departed() { return std::exchange(departed_, {}); }
  // A message of the last rank: logits of a pass, why there are none, or that all ranks have handed over
  // their caches. Ignored if the prompt has ended meanwhile. Fails on what the last rank cannot have sent.
  Status arrive(const ShardMessage& message, const Tell& tell);
  int64_t next_number() const { return next_number_; }
  int64_t draw_number() { return next_number_++; }  // which no prompt will have
  // Share::kPrefill. Prompts that ended with their first token since the last call. The caller calls
  // release() with a prompt's number when its memory is free again; unknown numbers are ignored.
  std::vector<HandedOver> take_handed_over() { return std::exchange(handed_over_, {}); }
  void release(int64_t number);

  // Share::kDecode. The cache to fill with the rows of this prompt; null: it does not wait for rows (any
  // more). Once all rows are in it, adopt() continues the answer from the first token, which must be in
  // the vocabulary.
  KvCache* awaiting(int64_t id);
  int64_t awaited_tokens(int64_t id) const;  // of that prompt; CHECKs that it waits
  Status adopt(int64_t id, int64_t first_token);

  SimDuration next_layer()
      const;  // how long it should take (layer_times.h); CHECKs that one is due
  int64_t kv_bytes_used() const { return kv_bytes_used_; }
  int64_t requests() const {
    return static_cast<int64_t>(work_.size() + away_.size() + awaiting_.size());
  }

 private:
  struct Work;

  Status begin_pass(Work& work);
  LayerWork next_work() const;
  bool due() const;
  bool in_use(int64_t id) const;
  KvShape counted() const;
  void finish_pass(const Tell& tell);
  static Result<int64_t> draw_token(Work& work, std::span<const float> logits);
  bool draw(Work& work, std::span<const float> logits, const Tell& tell);
  void end(int64_t id, const Tell& tell, EngineEvent event);
  void forget(const Work& work);
  void depart_first();
  void hand_over(Work& work);

  const Shard& shard_;
  EngineLimits limits_;
  const Clock& clock_;
  LayerPace pace_;
  std::deque<std::unique_ptr<Work>> work_;         // next turn first
  std::map<int64_t, std::unique_ptr<Work>> away_;  // by number: passes at other ranks
  std::vector<ShardMessage> departed_;
  std::map<int64_t, std::unique_ptr<Work>> awaiting_;  // their rows
  std::vector<HandedOver> handed_over_;
  std::map<int64_t, int64_t> handed_bytes_;  // by number: counted until they are released
  int64_t kv_bytes_used_ = 0;
  int64_t away_bytes_ = 0;
  int64_t next_number_;
};

}  // namespace tombolo::generate
