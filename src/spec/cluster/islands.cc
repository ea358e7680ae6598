#include "spec/cluster/islands.h"

#include <cstdlib>

#include "base/check.h"
#include "base/json.h"

namespace tombolo::cluster {

const Host* Islands::find(std::string_view datacenter, int64_t node) const {
  for (const Host& host : hosts) {
    if (host.datacenter == datacenter && host.node == node) return &host;
  }
  return nullptr;
}

std::string to_json_text(const Islands& islands) {
  CHECK(islands.byte_scale >= 1, "rates divided by {}", islands.byte_scale);
  return to_json(write_fields(islands), -1);
}

Result<Islands> parse_islands(std::string_view json) {
  const Value value = TRY(parse_json(json, kIslandsVariable, 0));
  return read_fields<Islands>(value, kIslandsVariable);
}

Result<std::optional<Islands>> islands_of_environment() {
  const char* text = std::getenv(kIslandsVariable);
  if (!text) return std::nullopt;
  return std::optional<Islands>(TRY(parse_islands(text)));
}

}  // namespace tombolo::cluster
