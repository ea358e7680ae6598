// Messages between ranks that share the layers of a prompt's model, in a ring: the first has the
// embedding and the prompts, the last the head, and the last one sends to the first.
//
//    0  "TPS1"            magic
//    4  uint32            word (below)
//    8  int64             the prompt, by the first rank's number
//   16  uint64            its tokens that went through before (hidden); the first token of its answer (hand over)
//   24  uint64            the tokens that its cache is to have room for (hidden); its id at the decode
//                         worker (hand over)
//   32  uint32 uint32     rows; numbers of a row
//   40  float32           rows x numbers (hidden, logits), or a text (failed, decode)
//
// Little-endian. Fields that a word does not use are zero. Messages of one link stay in order, and each
// rank forwards a drop when it arrives: so a rank never holds more caches than the first one counted when
// it sent the last message. A cache that is handed over counts at the first rank until all have sent theirs.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/fields.h"
#include "base/result.h"

namespace tombolo::generate {

enum class ShardWord : uint32_t {
  kHidden = 1,  // hidden states for the next layers
  kLogits,      // of the last token, from the last rank to the first
  kDrop,        // the prompt has ended: free its keys and values
  kDropAll,     // all prompts have ended
  kFailed,      // a rank cannot compute it: passed on to the first, which ends it
  kHandOver,    // the prompt has been read: its keys and values go to the decode worker
  kSent,        // those of this rank and of all before it have gone there
  kDecode,  // there is the decode worker (front_message.h); each rank passes it on when it is linked
};
constexpr auto enum_names(ShardWord) {
  return std::to_array<EnumName<ShardWord>>({{ShardWord::kHidden, "hidden"},
                                             {ShardWord::kLogits, "logits"},
                                             {ShardWord::kDrop, "drop"},
                                             {ShardWord::kDropAll, "drop all"},
                                             {ShardWord::kFailed, "failed"},
                                             {ShardWord::kHandOver, "hand over"},
                                             {ShardWord::kSent, "sent"},
                                             {ShardWord::kDecode, "decode"}});
}

struct ShardMessage {
  ShardWord word = ShardWord::kHidden;
  int64_t prompt = 0;
  int64_t past = 0;  // tokens
  int64_t room = 0;  // tokens
  int64_t rows = 0;
  std::vector<float> numbers = {};  // rows x as many each
  std::string text = {};            // at most kShardTextMax bytes
  int64_t first_token = 0;          // of kHandOver
  int64_t id = 0;                   // of kHandOver

  bool operator==(const ShardMessage&) const = default;
};

inline constexpr size_t kShardHeaderBytes = 40;
inline constexpr size_t kShardTextMax = 1024;

// A longer text is cut. Cost: a copy of the numbers, as in decoding.
std::vector<std::byte> encode(const ShardMessage& message);
// Fails on a malformed message: every length is checked before it is used.
Result<ShardMessage> decode_shard_message(std::span<const std::byte> bytes);

}  // namespace tombolo::generate
