#include "base/hash.h"

#include <fmt/format.h>
#include <xxhash.h>

#include "base/check.h"

namespace tombolo {
namespace {

std::string to_text(XXH128_hash_t hash) {
  return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
}

}  // namespace

std::string digest(std::string_view bytes) {
  return to_text(XXH3_128bits(bytes.data(), bytes.size()));
}

struct RunningDigest::State {
  XXH3_state_t* xxh = XXH3_createState();
  ~State() { XXH3_freeState(xxh); }
};

RunningDigest::RunningDigest() : state_(std::make_unique<State>()) {
  CHECK(state_->xxh, "no memory for a digest");
  XXH3_128bits_reset(state_->xxh);
}
RunningDigest::RunningDigest(RunningDigest&&) noexcept = default;
RunningDigest::~RunningDigest() = default;

void RunningDigest::add(std::string_view bytes) {
  CHECK(state_, "{} bytes for a digest that was moved away", bytes.size());
  XXH3_128bits_update(state_->xxh, bytes.data(), bytes.size());
}

std::string RunningDigest::text() const {
  CHECK(state_, "the text of a digest that was moved away");
  return to_text(XXH3_128bits_digest(state_->xxh));
}

void Fingerprint::add(uint64_t word) { state_ = XXH64(&word, sizeof word, state_); }

std::string Fingerprint::text() const { return fmt::format("{:016x}", state_); }

}  // namespace tombolo
