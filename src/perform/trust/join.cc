#include "perform/trust/join.h"

#include <fmt/format.h>
#include <openssl/crypto.h>
#include <sys/random.h>

#include <algorithm>

namespace tombolo::trust {
namespace {

constexpr std::string_view kPrefix = "tombolo-";
constexpr size_t kFingerprintDigits = 64;
constexpr size_t kSecretBytes = 16;
constexpr size_t kBodyMax = 16 * 1024;

int digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

std::vector<std::byte> framed(std::span<const std::byte> head, std::string_view text) {
  std::vector<std::byte> out;
  const size_t length = head.size() + text.size();
  for (int i = 0; i < 4; ++i) out.push_back(static_cast<std::byte>(length >> (8 * i)));
  out.insert(out.end(), head.begin(), head.end());
  const auto bytes = std::as_bytes(std::span(text));
  out.insert(out.end(), bytes.begin(), bytes.end());
  return out;
}

// The body; nothing while it is not whole.
Result<std::optional<std::span<const std::byte>>> body(std::span<const std::byte> bytes,
                                                       size_t least) {
  if (bytes.size() < 4) return std::nullopt;
  size_t length = 0;
  for (size_t i = 0; i < 4; ++i) length |= static_cast<size_t>(bytes[i]) << (8 * i);
  if (length < least || length > kBodyMax)
    return failed(
        fmt::format("a message of {} bytes where {} to {} are allowed", length, least, kBodyMax));
  if (bytes.size() - 4 > length) return failed("it sent more after its message");
  if (bytes.size() - 4 < length) return std::nullopt;
  return bytes.subspan(4, length);
}

std::string text_of(std::span<const std::byte> bytes) {
  return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

}  // namespace

Result<Invitation> Invitation::create(std::string fingerprint) {
  Invitation out;
  out.fingerprint_ = std::move(fingerprint);
  if (getrandom(out.secret_.data(), kSecretBytes, 0) != static_cast<ssize_t>(kSecretBytes))
    return failed("the kernel gives no random bytes for an invitation");
  return out;
}

Result<Invitation> Invitation::parse(std::string_view text) {
  const Error error{ErrorCode::kUnusable,
                    fmt::format("an invitation is \"{}\" and {} hexadecimal digits, 0-9 and a-f",
                                kPrefix, kFingerprintDigits + 2 * kSecretBytes),
                    {},
                    "copying all of what tombolo init --invite printed"};
  if (!text.starts_with(kPrefix)) return fail(error);
  text.remove_prefix(kPrefix.size());
  if (text.size() != kFingerprintDigits + 2 * kSecretBytes ||
      std::any_of(text.begin(), text.end(), [](char c) { return digit(c) < 0; }))
    return fail(error);
  Invitation out;
  out.fingerprint_ = text.substr(0, kFingerprintDigits);
  text.remove_prefix(kFingerprintDigits);
  for (size_t i = 0; i < kSecretBytes; ++i)
    out.secret_[i] = static_cast<std::byte>(digit(text[2 * i]) * 16 + digit(text[2 * i + 1]));
  return out;
}

std::string Invitation::text() const {
  std::string out = std::string(kPrefix) + fingerprint_;
  for (const std::byte b : secret_) out += fmt::format("{:02x}", static_cast<unsigned>(b));
  return out;
}

bool Invitation::matches(std::span<const std::byte> secret) const {
  return secret.size() == kSecretBytes &&
         CRYPTO_memcmp(secret.data(), secret_.data(), kSecretBytes) == 0;
}

std::vector<std::byte> encode_question(const Invitation& invitation, const std::string& request) {
  return framed(invitation.secret(), request);
}

Result<std::optional<JoinQuestion>> decode_question(std::span<const std::byte> bytes) {
  const auto whole = TRY(body(bytes, kSecretBytes + 1));
  if (!whole) return std::nullopt;
  JoinQuestion question;
  std::copy_n(whole->begin(), kSecretBytes, question.secret.begin());
  question.request = text_of(whole->subspan(kSecretBytes));
  return question;
}

std::vector<std::byte> encode_answer(const Result<std::string>& certificate) {
  const std::byte verdict{static_cast<unsigned char>(certificate ? 0 : 1)};
  return framed({&verdict, 1}, certificate ? *certificate : certificate.error().message);
}

Result<std::optional<std::string>> decode_answer(std::span<const std::byte> bytes) {
  const auto whole = TRY(body(bytes, 1));
  if (!whole) return std::nullopt;
  std::string text = text_of(whole->subspan(1));
  if (whole->front() == std::byte{0}) return text;
  for (char& c : text) c = c >= ' ' && c <= '~' ? c : '?';
  return failed("it refused: " + text.substr(0, 400));
}

}  // namespace tombolo::trust
