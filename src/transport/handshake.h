// The handshake: two ranks find out that they belong to one job, before anything else is believed.
//
// The dialer says hello (its rank, the rank it calls, the membership epoch, the job's token); the
// listener checks, answers with its own hello, and the dialer checks that. Who fails is told why in
// a failure frame. Version and framing were checked by the decoder.
//
// The token keeps strangers and other jobs of the same host out. It travels in clear text, and this
// version never leaves the machine (address.h, docs/decisions/0005).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "transport/frame.h"

namespace tombolo::transport {

// 128 random bits that all ranks of a job share. Never printed: hex() is for handing it to workers.
class Token {
 public:
  Token() = default;
  static Result<Token> random();  // from the kernel
  static Result<Token> parse(std::string_view hex);
  std::string hex() const;

  std::span<const std::byte> bytes() const { return bytes_; }
  // Takes as long for a near miss as for a far one.
  bool equals(std::span<const std::byte> other) const;

 private:
  std::array<std::byte, 16> bytes_{};
};

struct Identity {
  int32_t rank = 0;
  int32_t ranks = 0;  // how many the job has
  uint32_t epoch = 0;
  Token token;
};

// What a connection may send before we know each other: a hello or a short failure.
constexpr uint32_t kStrangerPayloadMax = 512;

std::vector<std::byte> hello_frame(const Identity& self, int32_t called);
std::vector<std::byte> goodbye_frame(const Identity& self);
std::vector<std::byte> failure_frame(const Identity& self, std::string_view reason);

// The rank of whoever sent this first frame, or why it cannot be a peer. Says nothing about the job
// to somebody without its token.
Result<int32_t> check_hello(const Identity& self, const Frame& frame);

// Two refusals that a dialer can do something about: it has another token than the listener (an
// old one, perhaps); somebody else is this rank already.
bool is_token_refusal(const Error& error);
bool is_duplicate_refusal(const Error& error);
Error duplicate_rank(int32_t rank);

}  // namespace tombolo::transport
