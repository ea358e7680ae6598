#include "perform/trust/message_code.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include "base/check.h"

namespace tombolo::trust {

MessageCode message_code(std::span<const std::byte> secret, std::span<const std::byte> message) {
  MessageCode out{};
  unsigned size = 0;
  const auto* text = reinterpret_cast<const unsigned char*>(message.data());
  const auto* made = HMAC(EVP_sha256(), secret.data(), static_cast<int>(secret.size()), text,
                          message.size(), reinterpret_cast<unsigned char*>(out.data()), &size);
  CHECK(made && size == out.size(), "OpenSSL without HMAC-SHA256");
  return out;
}

bool same_code(std::span<const std::byte> a, std::span<const std::byte> b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace tombolo::trust
