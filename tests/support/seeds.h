// How many seeds a property test draws.
#pragma once

#include <cstdint>
#include <cstdlib>

namespace tombolo {

// `usual`, and in ./test.sh --long the other.
inline uint64_t seeds(uint64_t usual, uint64_t with_long) {
  return std::getenv("TOMBOLO_LONG") != nullptr ? with_long : usual;
}

}  // namespace tombolo
