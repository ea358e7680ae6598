// A tokenizer.json or a model of SentencePiece from elsewhere: any bytes give ids below its vocabulary for any text, or a
// message.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/check.h"
#include "perform/text/text_encoder.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tombolo::text;
  const std::string_view file(reinterpret_cast<const char*>(data), size);
  const auto tokenizer = parse_tokenizer(file, "input");
  if (!tokenizer) {
    CHECK(!tokenizer.error().message.empty(), "no message");
    return 0;
  }
  for (const std::string_view text :
       {std::string_view("It's 12 tides,  über\n\nsand 日本"), file.substr(0, 200)}) {
    const auto ids = (*tokenizer)->encode(text);
    if (!ids) continue;
    for (const int64_t id : *ids) {
      CHECK(id >= 0 && id < (*tokenizer)->vocabulary(), "id {} of {}", id,
            (*tokenizer)->vocabulary());
    }
    const auto again = (*tokenizer)->encode(text);
    CHECK(again && *again == *ids, "other ids the second time");
    for (const int64_t id : *ids) static_cast<void>((*tokenizer)->bytes_of(id));
    const auto plain = (*tokenizer)->encode_plain(text);
    CHECK(!plain || plain->empty() || plain->front() < (*tokenizer)->vocabulary(), "no such id");
  }
  return 0;
}
