// A splice: two ranks that can only make outgoing connections both call the coordinator, which
// joins the two calls byte for byte. This is its protocol without sockets; splice_listener.h performs
// it.
//
// A call begins with 56 bytes, numbers with the low byte first:
//
//    0  8  "TMBSPLCE"
//    8  4  version, 1
//   12  4  the rank that calls
//   16  4  the rank that it wants
//   20  4  which connection of their link, from 0
//   24 32  HMAC-SHA256 of the bytes before, under the job's token
//
// When both are there each receives one byte, kJoined, and then what the other sends: the hello of
// handshake.h, inside TLS where there are credentials, which are checked from end to end. The
// coordinator sees ciphertext then, and has no part in who is believed. The token itself stays out
// of the preface, because nothing around it is encrypted. An attacker on the path can repeat a
// preface and take the place of a waiting call. That gains nothing: it could have cut the call as
// well, and without the certificate (or, in plain TCP, the token) it gets no further.
//
// A rank that calls again for the same connection takes the place of its earlier call.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <tuple>

#include "base/result.h"
#include "perform/link/handshake.h"

namespace tombolo::link {

constexpr size_t kPrefaceBytes = 56;
constexpr std::byte kJoined{'+'};

struct SpliceCall {
  int32_t from = 0;
  int32_t to = 0;
  uint32_t connection = 0;
  bool operator==(const SpliceCall&) const = default;
};

using Preface = std::array<std::byte, kPrefaceBytes>;
Preface encode_preface(const Token& token, const SpliceCall& call);
// The call, or why it is none of a job of `ranks` ranks. The reason says nothing about the job to a
// caller without its token.
Result<SpliceCall> decode_preface(const Token& token, int32_t ranks, const Preface& bytes);

// Which calls wait for which. Holds at most one call per rank, peer and connection.
class Pairing {
 public:
  using Id = uint64_t;  // the caller's name for a call
  struct Answer {
    std::optional<Id> partner;   // who waited: both are joined, and forgotten here
    std::optional<Id> replaced;  // an earlier call of the same rank: to be dropped
  };
  Answer add(Id id, const SpliceCall& call);
  // The call hung up. Nothing happens where it was not waiting.
  void remove(Id id);
  size_t waiting() const { return waiting_.size(); }

 private:
  using Key = std::tuple<int32_t, int32_t, uint32_t>;  // from, to, connection
  std::map<Key, Id> waiting_;
  std::map<Id, Key> keys_;
};

}  // namespace tombolo::link
