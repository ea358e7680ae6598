// Elements in coordinate format: any bytes give some within the tensor, or say why not; what was
// accepted has these very bytes as its encoding.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "base/check.h"
#include "perform/compress/top_k.h"

using namespace tombolo;
using namespace tombolo::compress;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::span<const std::byte> message(reinterpret_cast<const std::byte*>(data), size);
  const Result<ChosenNumbers> elements = decode_coordinates(message, 1'000'000);
  if (!elements) {
    CHECK(!elements.error().message.empty(), "refused without a word");
    return 0;
  }
  CHECK(elements->ids.empty() || elements->ids.back() < 1'000'000, "beyond the tensor");
  const std::vector<std::byte> again = encode_coordinates(*elements);
  CHECK(again.size() == size && std::memcmp(again.data(), data, size) == 0, "two encodings");
  return 0;
}
