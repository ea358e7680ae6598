#include "perform/link/json_payload.h"

#include <cstring>
#include <string>

#include "base/json.h"

namespace tombolo::link {

Payload json_payload(const Value& value) {
  const std::string text = to_json(value, -1);
  Payload out(text.size());
  std::memcpy(out.data(), text.data(), text.size());
  return out;
}

Result<Value> read_json_payload(std::span<const std::byte> bytes, std::string_view what,
                                size_t bytes_max) {
  if (bytes.size() > bytes_max) {
    return failed(fmt::format("{}: {} bytes, of at most {}", what, bytes.size(), bytes_max));
  }
  return parse_json({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, std::string(what),
                    0);
}

}  // namespace tombolo::link
