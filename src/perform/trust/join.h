// Joining: how a new host gets its certificate from the one that has the authority.
//
// An invitation is a text that a person carries from one host to the other: the fingerprint of the
// authority, and a secret. The new host calls (TLS, whose certificates must lead to that
// fingerprint), sends the secret and its signing request; the answer is its certificate. Its key
// never leaves it, the secret is worth one certificate until the invitation ends, and no one on the
// path learns either. The name in the certificate is the inviting side's choice.
//
// On the wire, inside TLS: four bytes of length, lowest first, then that many bytes.
//   question   the secret (16), the signing request (PEM)
//   answer     0 and the certificate (PEM), or 1 and the reason why not
// Lengths are checked before they are used. Sockets are in transport/join_hosts.h.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace tombolo::trust {

class Invitation {
 public:
  // A new secret, from the kernel, for the authority with this fingerprint.
  static Result<Invitation> create(std::string fingerprint);
  // The text itself stays out of the error: it may be the secret with one slip in it.
  static Result<Invitation> parse(std::string_view text);

  // "tombolo-" and 96 hexadecimal digits. The secret: to be shown once, to the person who invites.
  std::string text() const;
  const std::string& fingerprint() const { return fingerprint_; }
  std::span<const std::byte> secret() const { return secret_; }
  // Takes as long for a near miss as for a far one.
  bool matches(std::span<const std::byte> secret) const;

 private:
  std::string fingerprint_;  // SHA-256, hexadecimal
  std::array<std::byte, 16> secret_{};
};

struct JoinQuestion {
  std::array<std::byte, 16> secret{};
  std::string request;
};
std::vector<std::byte> encode_question(const Invitation& invitation, const std::string& request);
// Nothing while more bytes must come; an error where they can never be a question.
Result<std::optional<JoinQuestion>> decode_question(std::span<const std::byte> bytes);

// A certificate, or why there is none.
std::vector<std::byte> encode_answer(const Result<std::string>& certificate);
// The error is either what the other side said, or that it said nothing sensible.
Result<std::optional<std::string>> decode_answer(std::span<const std::byte> bytes);

}  // namespace tombolo::trust
