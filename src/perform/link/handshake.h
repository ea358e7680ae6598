// The handshake: two ranks verify that they belong to one job, before anything else is accepted.
//
// The dialer says hello (its rank, the rank it calls, the membership epoch, the job's token); the
// listener checks, answers with its own hello, and the dialer checks that. A side that is refused
// receives the reason in a failure frame. Version and framing were checked by the decoder.
//
// A link has 1 to 16 connections, and every one of them shakes hands. A hello says which one of how
// many this is, and of which attempt: the instant at which the dialer began to call, on its wall
// clock. So what is left of an earlier attempt (of a process that is gone, perhaps) does not become
// part of this one, and a newer attempt takes the place of one that was never completed.
// The dialer decides how many there are; the answer repeats what it said.
//
// A connection is not a link. Where both sides say in their hellos for how long they would wait
// (Terms::grace), a link that is up outlives its connections: the dialer calls again for the one
// that was lost, naming the link by its attempt and the call by its round. And a link is not a
// member: a hello names the process by its incarnation, and a redial says which one it means. So a
// process that was restarted in between is recognised as another, and resumes nothing.
//
// The token keeps other programs and other jobs of the same hosts out. Between hosts it travels
// inside TLS, whose certificates keep all but our hosts out; in clear text only inside one machine
// (address.h, docs/decisions/0015), or where plain TCP was requested
// (Endpoint::Options::plain_tcp).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "perform/link/frame.h"

namespace tombolo::link {

// The last one that a process tells another; those behind it are its own.
inline constexpr ErrorCause kLastSentCause = ErrorCause::kDamagedOnTheWay;

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
  // Which process this is: random, chosen by each process at its start. 0: not given, and then a
  // restart cannot be detected.
  uint64_t incarnation = 0;
};

// What a connection may send before its handshake is done, in bytes: a hello or a short failure.
constexpr uint32_t kUnauthenticatedPayloadMax = 512;

constexpr uint32_t kConnectionsMax = 16;

// Which connection of a link.
struct LinkPart {
  uint32_t connection = 0;  // from 0
  uint32_t connections = 1;
  uint64_t attempt = 0;
  uint32_t round = 0;  // 0: the first call; above: how often this connection was called again
  bool operator==(const LinkPart&) const = default;
};

// What a hello says beyond who and which.
struct Terms {
  SimDuration grace;             // how long it would wait for a lost link; 0: not at all. Whole ms
  uint64_t resumes = 0;          // the incarnation whose link it resumes; 0: any
  uint64_t window = kUnlimited;  // how many bytes may come before one is taken (link.h)
};

struct Caller {
  int32_t rank = 0;
  LinkPart part;
  uint64_t incarnation = 0;
  Terms terms;
};

std::vector<std::byte> hello_frame(const Identity& self, int32_t called, const LinkPart& part = {},
                                   const Terms& terms = {});
// Says how many messages were sent, over all connections, and up to which all of the other side's
// are here: a receipt may have been lost, and after the goodbye there is none.
std::vector<std::byte> goodbye_frame(const Identity& self, uint64_t messages,
                                     uint64_t complete = 0);
// All messages up to `message` are here, `segments` came over this connection, and bytes up to
// `credit` may be sent in all (link.h).
std::vector<std::byte> receipt_frame(const Identity& self, uint64_t message, uint64_t segments = 0,
                                     uint64_t credit = kUnlimited);
std::vector<std::byte> ping_frame(const Identity& self);
// Carries the error's message and its cause.
std::vector<std::byte> failure_frame(const Identity& self, const Error& error);

// Who sent this first frame, or why it cannot be a peer. The reason says nothing about the job to a
// caller without its token. Two incarnations of one rank are refused with
// ErrorCause::kRestarted.
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
    kResumed,     // a redialed connection of a link that is up, in place of the one before
  };
  // `resumable`: a link that is up takes lost connections back. An incarnation that is not the
  // link's is refused with was_restarted() where it called later; then the link is over.
  Result<Welcome> add(const Caller& caller, bool resumable = false);
  // For the side that dials again: this answer is from the process that the link is with.
  Status check_again(const Caller& caller) const;
  // Some connection of the attempt broke before all were here.
  void start_over();

  bool complete() const { return connections_ > 0 && here_.size() == connections_; }
  uint32_t connections() const { return connections_; }
  uint64_t attempt() const { return attempt_; }
  uint64_t incarnation() const { return incarnation_; }  // of the other side, 0: unknown

 private:
  Result<Welcome> add_again(const Caller& caller, bool resumable);

  bool expected_ = false;
  uint64_t incarnation_ = 0;
  uint64_t attempt_ = 0;
  uint32_t connections_ = 0;  // 0: no call came
  std::set<uint32_t> here_;
  std::map<uint32_t, uint32_t> rounds_;  // by connection, of those that were called again
};

// Refusals that a caller tells apart by their cause.
Error duplicate_rank(int32_t rank);
Error about_to_end();
Error crowded();
Error was_restarted(int32_t rank);

}  // namespace tombolo::link
