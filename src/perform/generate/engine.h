// Prompts that were admitted, and their answers token by token: a layer at a time, so that whoever
// has other things to do can go and do them in between.
//
// Admission counts before it promises: the KV cache of a prompt and of the longest answer that it
// asks for is allocated when it is admitted, or the prompt is refused. Nothing grows later, and no
// prompt is ever put out again.
//
// Passes take turns, prompt by prompt: one pass of each, a prefill or a token. A pass that has begun
// is finished before another's begins, so there is one set of activations at a time.
//
// For one thread. Time comes from the clock that is passed in.
#pragma once

#include <array>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/fields.h"
#include "base/random.h"
#include "perform/generate/layer_times.h"
#include "perform/generate/sampling.h"
#include "perform/generate/shard.h"

namespace tombolo::generate {

// Who computes the tokens of an answer behind its first one. A prompt may be read in the gaps of a
// training and its answer be written by a decode worker, which has nothing else to do: then both are
// asked with the same request, and keys and values go from one to the other (kv_rows.h).
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
  int64_t id = 0;               // of who asks; no two at once have the same
  std::vector<int64_t> tokens;  // the prompt, one at least
  int64_t tokens_max = 1;       // of the answer
  std::vector<int64_t> stop;    // ends with one of these, which is not part of the answer
  Sampling sampling;
  Share share = Share::kWhole;

  bool operator==(const Request&) const = default;
};

enum class Refusal {
  kBusy,     // no memory or no place now; later perhaps
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

enum class EngineEventKind { kToken, kStop, kLength, kFailed };
struct EngineEvent {
  int64_t id = 0;
  EngineEventKind kind = EngineEventKind::kToken;
  int64_t token = 0;         // of kToken
  std::string message = {};  // of kFailed
};

// A prompt that was read here and is answered elsewhere. Its cache counts until it is released.
struct HandedOver {
  int64_t id = 0;
  int64_t first_token = 0;  // of the answer: it was told
  std::unique_ptr<KvCache> cache;
};

struct EngineLimits {
  int64_t kv_bytes = int64_t{1} << 30;  // of all caches together
  int64_t requests_max = 64;            // at once
};

class Engine {
 public:
  // `shard` is a whole model and outlives the engine.
  Engine(const Shard& shard, EngineLimits limits, const Clock& clock);
  ~Engine();

  // Nothing: it is admitted.
  std::optional<Refused> admit(Request request);
  void cancel(int64_t id);  // of nobody: ignored, it may just have ended
  bool idle() const { return work_.empty(); }

  // One layer. CHECKs that it is not idle. What it brought about goes to `tell`, which must not call
  // the engine.
  using Tell = std::function<void(const EngineEvent&)>;
  void do_layer(const Tell& tell);

  // A layer, if one is due that should be over by `until`. False: none was done. Expectations that
  // have refused eight windows in a row (each with an `until` of its own) lose their slowest
  // observation, so that a prompt gets on even where no gap is long enough, by few layers that
  // overrun theirs.
  bool work_once(SimTime until, const Tell& tell);
  // Layers for as long as that does any. How many.
  int64_t work_until(SimTime until, const Tell& tell);

  // Tokens of the next pass of each prompt, or of the one that has begun, in the order of turns.
  std::vector<int64_t> turns() const;
  SimDuration expect(const LayerWork& work) const { return times_.expect(work); }
  // Somebody refused a prompt for what is expected of such layers, although nothing else was to be
  // done. As nobody learns from prompts that are refused, every eighth time the slowest observation
  // is forgotten.
  void doubt(const LayerWork& work);
  // Share::kPrefill. What ended with its first token since the last call; whoever takes it says when
  // its memory is free again.
  std::vector<HandedOver> take_handed_over() { return std::exchange(handed_over_, {}); }
  void release(int64_t kv_bytes);

  // Share::kDecode. The cache that waits for the rows of this prompt, for whoever fills it; null: nobody
  // waits for them (any more). With the first token, which must be of the vocabulary, the answer goes
  // on from there.
  KvCache* awaiting(int64_t id);
  int64_t awaited_tokens(int64_t id) const;  // of that prompt; CHECKs that it waits
  Status adopt(int64_t id, int64_t first_token);

  SimDuration next_layer()
      const;  // how long it should take (layer_times.h); CHECKs that one is due
  int64_t kv_bytes_used() const { return kv_bytes_used_; }
  int64_t requests() const { return static_cast<int64_t>(work_.size() + awaiting_.size()); }

 private:
  struct Work;

  Status begin_pass(Work& work);
  LayerWork next_work() const;
  void finish_pass(const Tell& tell);
  void end_first(const Tell& tell, EngineEvent event);
  void hand_over_first(int64_t first_token);

  const Shard& shard_;
  EngineLimits limits_;
  const Clock& clock_;
  LayerTimes times_;
  std::deque<std::unique_ptr<Work>> work_;             // whose turn it is first
  std::map<int64_t, std::unique_ptr<Work>> awaiting_;  // their rows
  std::vector<HandedOver> handed_over_;
  int64_t kv_bytes_used_ = 0;
  int refused_ = 0;  // windows in a row, for being too short
  int doubts_ = 0;
  SimTime refused_until_{-1};  // the last of them
};

}  // namespace tombolo::generate
