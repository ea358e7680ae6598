// Keys and values on their way from the ranks that read a prompt to the worker that answers it:
// messages with some rows of one layer, in order, each of which says what it belongs to.
//
//    0  "TKV1"            magic
//    4  uint32            0 keys, 1 values
//    8  int64             the prompt's id
//   16  uint64            its tokens, of which each layer has a row
//   24  uint64            the first token of the answer
//   32  uint32 uint32     layers of the model; the layer of these rows
//   40  uint32 uint32     numbers of a row; rows here
//   48  uint64            the first of them
//   56  float32           rows x numbers
//
// Little-endian. Order: of each layer keys before values, rows as tokens; layers come in any order, as
// several ranks send some each. A message has at most
// kKvMessageMax bytes, so that no receiver needs more at once, and a link of several connections
// (transport) carries them side by side.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <span>
#include <vector>

#include "base/result.h"
#include "perform/generate/engine.h"

namespace tombolo::generate {

inline constexpr size_t kKvMessageMax = size_t{1} << 20;
inline constexpr size_t kKvHeaderBytes = 56;

struct KvRows {
  int64_t id = 0;
  int64_t tokens = 0;
  int64_t first_token = 0;
  KvShape shape;
  int64_t layer = 0;
  bool values = false;  // or else keys
  int64_t first = 0, count = 0;
  std::span<const std::byte> numbers = {};  // count x width x 4 bytes; may lie at any address
};

using KvMessage = std::vector<std::byte>;
KvMessage encode(const KvRows& rows);
// Fails on a malformed message: every length is checked before it is used. The view lives as long as the
// bytes.
Result<KvRows> decode_kv_rows(std::span<const std::byte> message);

// All messages of a cache, in order, made one at a time. Ends early where `say` fails.
Status say_kv_rows(const HandedOver& prompt, const std::function<Status(KvMessage)>& say);

// Rows as they come, into the caches of an engine that waits for them.
class KvIntake {
 public:
  explicit KvIntake(Engine& engine) : engine_(engine) {}

  // Rows of a prompt that does not wait for any are dropped: it may just have been cancelled. With the
  // last row the engine adopts the prompt. Fails if the rows are not those that come next, or not of
  // this model; then do not accept anything more from their sender.
  Status take(std::span<const std::byte> message);

 private:
  Engine& engine_;
  struct Taken {
    int64_t first_token = 0;
    std::vector<int64_t> rows = {};  // keys and values together, by layer
    int64_t layers = 0;              // that are complete
  };
  std::map<int64_t, Taken> taken_;  // by prompt
};

}  // namespace tombolo::generate
