// The .idx of a token file, which another program may have written: any bytes give sequences that
// add up, or a message that names the file and a byte.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/check.h"
#include "perform/data/token_index.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tombolo::data;
  const auto bytes = std::as_bytes(std::span(data, size));
  const auto index = read_token_index(bytes, "input.idx");
  if (!index) {
    CHECK(index.error().message.starts_with("input.idx: byte "), "{}", index.error().message);
    return 0;
  }
  CHECK(index->end() <= size, "{} bytes of {}", index->end(), size);
  size_t seen = 0;
  const auto tokens = check_token_index(*index, bytes, "input.idx", [&](size_t begin, size_t end) {
    CHECK(begin <= end && end <= size, "bytes {} to {} of {}", begin, end, size);
    seen += end - begin;
  });
  if (!tokens) {
    CHECK(tokens.error().message.starts_with("input.idx: byte "), "{}", tokens.error().message);
    return 0;
  }
  CHECK(*tokens >= 0 && *tokens <= index->sequences * INT32_MAX, "{} tokens", *tokens);
  CHECK(seen == index->end() - index->sizes_begin(), "looked at {} of {} bytes", seen,
        index->end() - index->sizes_begin());
  return 0;
}
