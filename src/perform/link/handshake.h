// The handshake: two ranks find out that they belong to one job, before anything else is believed.
//
// The dialer says hello (its rank, the rank it calls, the membership epoch, the job's token); the
// listener checks, answers with its own hello, and the dialer checks that. Who fails is told why in
// a failure frame. Version and framing were checked by the decoder.
//
// A link has 1 to 16 connections, and every one of them shakes hands. A hello says which one of how
// many this is, and of which attempt: the instant at which the dialer began to call, on its wall
// clock. So what is left of an earlier attempt (of a process that is gone, perhaps) does not become
// part of this one, and a newer attempt takes the place of one that was never completed.
// The dialer decides how many there are; the answer repeats what it said.
//
// The token keeps strangers and other jobs of the same hosts out. Between hosts it travels inside
// TLS, whose certificates keep all but our hosts out; in clear text only where nobody listens
// (address.h, docs/decisions/0015).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "perform/link/frame.h"

namespace tombolo::link {

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

constexpr uint32_t kConnectionsMax = 16;

// Which connection of a link.
struct LinkPart {
  uint32_t connection = 0;  // from 0
  uint32_t connections = 1;
  uint64_t attempt = 0;
  bool operator==(const LinkPart&) const = default;
};

struct Caller {
  int32_t rank = 0;
  LinkPart part;
};

std::vector<std::byte> hello_frame(const Identity& self, int32_t called, const LinkPart& part = {});
// Says how many messages were sent, over all connections.
std::vector<std::byte> goodbye_frame(const Identity& self, uint64_t messages);
// All messages up to this one are here.
std::vector<std::byte> receipt_frame(const Identity& self, uint64_t message);
std::vector<std::byte> failure_frame(const Identity& self, std::string_view reason);

// Whoever sent this first frame, or why it cannot be a peer. Says nothing about the job to somebody
// without its token.
Result<Caller> check_hello(const Identity& self, const Frame& frame);

// Which connections of a link have shaken hands. The link is up when all have.
class Gathering {
 public:
  // For the side that dials: only this attempt counts.
  void expect(uint64_t attempt, uint32_t connections);
  bool expecting() const { return expected_; }
  bool expects(uint64_t attempt) const { return expected_ && attempt == attempt_; }

  enum class Welcome {
    kJoined,
    kJoinedAnew,  // a newer attempt: what belongs to the one before it is to be dropped
  };
  Result<Welcome> add(const Caller& caller);
  // Some connection of the attempt broke before all were here.
  void start_over();

  bool complete() const { return connections_ > 0 && here_.size() == connections_; }
  uint32_t connections() const { return connections_; }

 private:
  bool expected_ = false;
  uint64_t attempt_ = 0;
  uint32_t connections_ = 0;  // 0: nobody called
  std::set<uint32_t> here_;
};

// Two refusals that a dialer can do something about: it has another token than the listener (an
// old one, perhaps); somebody else is this rank already.
bool is_token_refusal(const Error& error);
bool is_duplicate_refusal(const Error& error);
Error duplicate_rank(int32_t rank);

}  // namespace tombolo::link
