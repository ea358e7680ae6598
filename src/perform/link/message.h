// Messages: what callers hand over and get back.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/time.h"

namespace tombolo::link {

using Payload = std::vector<std::byte>;

// Which message: both ends derive the same tag from the Plan. Equal tags between the same two ranks
// are received in the order they were sent.
struct Tag {
  uint64_t iteration = 0;
  uint64_t tensor = 0;
  auto operator<=>(const Tag&) const = default;
};
std::string text(const Tag& tag);  // "iteration 3 tensor 7"

// Which message goes first: the one with the lowest number; of equal ones the oldest.
using Urgency = uint64_t;

// What a message counts in addition to its bytes where credit is counted (link.h), in bytes: so
// that empty messages are bounded too.
constexpr uint64_t kMessageCost = 256;

struct Message {
  Tag tag;
  Payload payload;
  SimTime start;     // its first byte left the sender
  SimTime departed;  // its last byte did
  SimTime begun;     // its first byte was there, on the receiver's clock
};

}  // namespace tombolo::link
