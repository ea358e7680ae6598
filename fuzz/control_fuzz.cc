// What launcher and ranks say to each other: any bytes give a message or say why not. A message
// that was accepted says all that the bytes said, and is encoded and decoded to the same.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "base/check.h"
#include "base/json.h"
#include "perform/join/control_message.h"

namespace {

using namespace tombolo;

// Without what stands behind it: the bytes of a file's piece.
std::string text_of(const link::Payload& payload) {
  const std::string all(reinterpret_cast<const char*>(payload.data()), payload.size());
  return all.starts_with("{\"piece\"") ? all.substr(0, all.find('\n')) : all;
}

bool empty(const Value& value) {
  if (const auto* text = value.get<std::string>()) return text->empty();
  if (const auto* list = value.get<Value::Array>()) return list->empty();
  return false;
}

// Whether `all` repeats what `said` says. It may say more, because it names defaults too, leaves
// out empty texts and lists, and writes whole numbers as fractions where the field is one.
bool repeats(const Value& said, const Value& all) {
  if (const auto* table = said.get<Value::Table>()) {
    return all.get<Value::Table>() && std::all_of(table->begin(), table->end(), [&](auto& entry) {
             const Value* found = all.find(entry.first);
             return found ? repeats(entry.second, *found) : empty(entry.second);
           });
  }
  if (const auto* list = said.get<Value::Array>()) {
    const auto* other = all.get<Value::Array>();
    return other && std::equal(list->begin(), list->end(), other->begin(), other->end(), repeats);
  }
  if (const auto* whole = said.get<int64_t>()) {
    if (const auto* fraction = all.get<double>()) return static_cast<double>(*whole) == *fraction;
  }
  return said == all;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  link::Payload payload(size);
  if (size > 0) std::memcpy(payload.data(), data, size);
  const auto message = join::decode(payload);
  if (!message) {
    CHECK(!message.error().message.empty(), "refused without a word");
    return 0;
  }
  const link::Payload bytes = join::encode(*message);
  const auto said = parse_json(text_of(payload), "what came");
  const auto all = parse_json(text_of(bytes), "what is sent");
  CHECK(said && all && repeats(*said, *all), "something was lost: {}", text_of(bytes));
  const auto again = join::decode(bytes);
  CHECK(again, "{} in {}", again.error().text(), text_of(bytes));
  CHECK(again->index() == message->index(), "another kind: {}", text_of(bytes));
  CHECK(join::encode(*again) == bytes, "changed on the way through {}", text_of(bytes));
  return 0;
}
