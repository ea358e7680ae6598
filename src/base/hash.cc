#include "base/hash.h"

#include <fmt/format.h>
#include <xxhash.h>

namespace tombolo {

std::string digest(std::string_view bytes) {
  const XXH128_hash_t hash = XXH3_128bits(bytes.data(), bytes.size());
  return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
}

void Fingerprint::add(uint64_t word) { state_ = XXH64(&word, sizeof word, state_); }

std::string Fingerprint::text() const { return fmt::format("{:016x}", state_); }

}  // namespace tombolo
