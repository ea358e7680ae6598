// SecureStream: one end of a TLS 1.3 connection, as a state machine without a socket.
//
// Bytes of the network go in through space() and commit(), and come out as plain bytes through
// open(). Plain bytes go in through seal(), and what the network should carry comes out through
// take(). The owner of the socket decides when: nothing here waits.
//
//   SecureStream stream(context, SecureStream::Role::kDials);
//   send(stream.take());                       // its first words
//   stream.commit(read(stream.space()));       // the other side's
//   while (size_t n = TRY(stream.open(to))) ... // 0: more must come
//   if (stream.ready()) stream.seal(hello);
//
// Both sides show a certificate of one authority (credentials.h). The end is announced (say_end(),
// heard_end()): a stream that ends without it was cut, perhaps by an attacker on the path.
//
// Memory: before the handshake is over, 4 KiB of input and what OpenSSL keeps, about 40 KiB in all;
// at most 32 KiB of handshake are read. After widen() 64 KiB of input. Output is what was sealed
// and not taken. Cost: one copy and one pass of AES-GCM each way; 22 bytes per record of 16 KiB.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "perform/trust/credentials.h"

namespace tombolo::trust {

// What errors with ErrorCause::kDamagedOnTheWay say: a packet of a handshake came damaged past TCP's
// checksum, here or on the other side. Another call may go better.
inline constexpr std::string_view kDamagedOnTheWay = "it was damaged on the way, perhaps";

// What all connections of one host share. Immutable; may be used by several threads.
class SecureContext {
 public:
  // Both sides show certificates.
  static Result<std::shared_ptr<const SecureContext>> create(const Credentials& credentials);
  // Who answers shows a certificate; who dials has none yet. The dialer knows the authority by its
  // fingerprint alone (join.h).
  static Result<std::shared_ptr<const SecureContext>> for_inviter(const Credentials& credentials);
  static Result<std::shared_ptr<const SecureContext>> for_joiner(std::string fingerprint);
  ~SecureContext();

 private:
  friend class SecureStream;
  struct State;
  explicit SecureContext(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

class SecureStream {
 public:
  enum class Role { kDials, kAnswers };
  SecureStream(std::shared_ptr<const SecureContext> context, Role role);
  ~SecureStream();
  SecureStream(const SecureStream&) = delete;

  // Where the next bytes of the network go. What was not opened is dropped.
  std::span<std::byte> space();
  void commit(size_t bytes);

  // Plain bytes that came, and 0 where more must come first, or the end was heard. An error is
  // final, and worded for people: "its certificate expired on ...".
  Result<size_t> open(std::span<std::byte> to);

  bool ready() const { return ready_; }  // both sides have proved who they are
  bool heard_end() const { return heard_end_; }

  // Only when ready. The keys are renewed on the way, long before AES-GCM wears out.
  void seal(std::span<const std::byte> plain);
  void say_end();  // does nothing before ready, or the second time

  bool has_output() const { return !output_.empty(); }
  // What the network should carry next; `into` lends its memory.
  void take(std::vector<std::byte>& into);

  // Renews the keys after `bytes`; default 64 GiB. The limit of RFC 8446 (5.5) is 2^24.5 records.
  void renew_keys_every(uint64_t bytes) { renew_after_ = bytes; }

  // From now on it may read as much at once as the network gives.
  void widen();

  // The authority that the other side showed, PEM; of a joiner, once ready.
  Result<std::string> shown_authority() const;

 private:
  friend class SecureContext;
  struct Glue;  // OpenSSL's callbacks
  Result<bool> shake_hands();
  const Error& explain(int result);

  std::shared_ptr<const SecureContext> context_;
  struct Session;
  std::unique_ptr<Session> session_;
  std::vector<std::byte> input_;
  size_t opened_ = 0;                 // of the input
  size_t committed_ = 0;              // of the input
  size_t unauthenticated_bytes_ = 0;  // bytes that came before ready
  uint64_t sealed_ = 0;               // bytes since the keys are in use
  uint64_t renew_after_ = uint64_t{64} << 30;
  std::vector<std::byte> output_;
  std::string objection_;  // to the other side's certificate
  bool ready_ = false;
  bool heard_end_ = false;
  bool said_end_ = false;
  std::optional<Error> failure_;  // final
};

}  // namespace tombolo::trust
