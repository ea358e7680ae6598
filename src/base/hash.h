// Digests for "is this the same?": XXH3, 128 bits as 32 hexadecimal digits. Not a signature.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace tombolo {

std::string digest(std::string_view bytes);

// The same digest, of bytes that come in pieces.
class RunningDigest {
 public:
  RunningDigest();
  RunningDigest(RunningDigest&&) noexcept;
  ~RunningDigest();
  void add(std::string_view bytes);
  std::string text() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// A running hash, for the order of a simulation's events (16 hexadecimal digits).
class Fingerprint {
 public:
  void add(uint64_t word);
  std::string text() const;

 private:
  uint64_t state_ = 0;
};

}  // namespace tombolo
