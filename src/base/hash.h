// Digests for "is this the same?": XXH3, 128 bits as 32 hexadecimal digits. Not a signature.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tombolo {

std::string digest(std::string_view bytes);

// A running hash, for the order of a simulation's events (16 hexadecimal digits).
class Fingerprint {
 public:
  void add(uint64_t word);
  std::string text() const;

 private:
  uint64_t state_ = 0;
};

}  // namespace tombolo
