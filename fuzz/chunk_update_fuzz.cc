// Updates by chunks of others: any bytes give numbers that are finite, within the tensor and in ascending order, or
// say why not; and the blocks around them hold the same.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "base/check.h"
#include "perform/compress/chunks.h"

using namespace tombolo;
using namespace tombolo::compress;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::span<const std::byte> message(reinterpret_cast<const std::byte*>(data), size);
  // The receiver knows how long its tensor is: the one that the message claims, within reason.
  uint64_t claimed = 0;
  if (size >= 16) std::memcpy(&claimed, data + 8, sizeof claimed);
  const auto length = static_cast<int64_t>(std::min<uint64_t>(claimed, 1'000'000'000));
  const Result<ChosenNumbers> chosen = decode_chunks(message, length);
  if (!chosen) {
    CHECK(!chosen.error().message.empty(), "refused without a word");
    return 0;
  }
  CHECK(chosen->values.size() == chosen->ids.size(), "{} values", chosen->values.size());
  int64_t before = -1;
  for (size_t i = 0; i < chosen->ids.size(); ++i) {
    const int64_t id = chosen->ids[i];
    CHECK(id > before && id < length, "number {} after {} of {}", id, before, length);
    CHECK(std::isfinite(chosen->values[i]), "{}", chosen->values[i]);
    before = id;
  }
  if (length > 100'000) return 0;
  const std::vector<float> dense = blocks_around(*chosen).dense();
  CHECK(std::ssize(dense) == length, "{} numbers of {}", dense.size(), length);
  for (size_t i = 0; i < chosen->ids.size(); ++i)
    CHECK(dense[chosen->ids[i]] == chosen->values[i], "number {}", chosen->ids[i]);
  return 0;
}
