// Updates of all numbers of others: any bytes give numbers that are finite, as many as there should be, or say
// why not; in fp32 what was accepted has these very bytes as its encoding, but behind the tensor's end.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "base/check.h"
#include "perform/compress/dense_code.h"

using namespace tombolo;
using namespace tombolo::compress;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::span<const std::byte> message(reinterpret_cast<const std::byte*>(data), size);
  // The receiver knows how long its tensor is: the one that the message claims, within reason.
  uint64_t claimed = 0;
  if (size >= 16) std::memcpy(&claimed, data + 8, sizeof claimed);
  const auto length = static_cast<int64_t>(std::min<uint64_t>(claimed, 1'000'000'000));
  const Result<std::vector<float>> numbers = decode_dense(message, length);
  if (!numbers) {
    CHECK(!numbers.error().message.empty(), "refused without a word");
    return 0;
  }
  CHECK(std::ssize(*numbers) == length, "{} numbers of {}", numbers->size(), length);
  for (const float each : *numbers) CHECK(std::isfinite(each), "{}", each);
  const auto again = encode_dense(*numbers, std::nullopt);
  CHECK(again, "finite numbers are refused");
  if (data[5] != 255) return 0;
  const size_t until = 24 + numbers->size() * sizeof(float);
  CHECK(again->size() == size && std::memcmp(again->data(), data, until) == 0,
        "two encodings of one update");
  return 0;
}
