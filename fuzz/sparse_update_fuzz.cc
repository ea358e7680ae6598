// Sparse updates of others: any bytes give one within its bounds, or say why not; what was accepted
// has these very bytes as its encoding, and can be unpacked, densely where the tensor is small.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "base/check.h"
#include "perform/compress/update_code.h"

using namespace tombolo;
using namespace tombolo::compress;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::span<const std::byte> message(reinterpret_cast<const std::byte*>(data), size);
  // The receiver knows how long its tensor is: the one that the message claims, within reason.
  uint64_t claimed = 0;
  if (size >= 16) std::memcpy(&claimed, data + 8, sizeof claimed);
  const auto length = static_cast<int64_t>(std::min<uint64_t>(claimed, 1'000'000'000));
  constexpr int64_t kBlocksMax = 4096;
  const Result<PackedBlocks> update = decode(message, length, kBlocksMax);
  if (!update) {
    CHECK(!update.error().message.empty(), "refused without a word");
    return 0;
  }
  const size_t count = update->ids.size();
  CHECK(count <= kBlocksMax && count <= static_cast<size_t>(blocks_of(length)), "{} blocks", count);
  const std::vector<std::byte> again = encode(*update);
  CHECK(again.size() == size && (size == 0 || std::memcmp(again.data(), data, size) == 0),
        "two encodings of one update");
  Blocks blocks;
  unpack(*update, blocks);
  for (const float value : blocks.values) CHECK(std::isfinite(value), "{}", value);
  if (length <= 100'000) CHECK(blocks.dense().size() == static_cast<size_t>(length), "{}", length);
  return 0;
}
