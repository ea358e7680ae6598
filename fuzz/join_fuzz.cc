// What strangers send to a host that invites, and what people type: arbitrary bytes as invitations,
// join messages, certificates, signing requests and words of a TLS handshake.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/check.h"
#include "perform/trust/authority.h"
#include "perform/trust/join.h"
#include "perform/trust/secure_stream.h"

using namespace tombolo;
using namespace tombolo::trust;

namespace {

const Authority& authority() {
  static const Authority one = *Authority::create(wall_time());
  return one;
}

const std::shared_ptr<const SecureContext>& inviter() {
  static const auto context =
      *SecureContext::for_inviter(*authority().issue("first", host_validity(wall_time())));
  return context;
}

void shake_hands(std::span<const std::byte> bytes, size_t portion) {
  SecureStream stream(inviter(), SecureStream::Role::kAnswers);
  std::vector<std::byte> plain(512), wire;
  while (!bytes.empty()) {
    const auto space = stream.space();
    const size_t n = std::min({portion, space.size(), bytes.size()});
    std::copy_n(bytes.begin(), n, space.begin());
    stream.commit(n);
    bytes = bytes.subspan(n);
    const auto opened = stream.open(plain);
    CHECK(!opened || *opened == 0, "{} bytes of a stranger were believed", *opened);
    CHECK(!stream.ready(), "a stranger finished the handshake");
    stream.take(wire);
    CHECK(wire.size() < 16 * 1024, "{} bytes for a stranger", wire.size());
    if (!opened) return;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 1) return 0;
  const std::span bytes(reinterpret_cast<const std::byte*>(data) + 1, size - 1);
  const std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (const auto invitation = Invitation::parse(text))
    CHECK(invitation->text() == text, "an invitation reads differently");
  if (const auto question = decode_question(bytes); question && *question)
    CHECK((*question)->request.size() < 16 * 1024, "a request of {} bytes",
          (*question)->request.size());
  static_cast<void>(decode_answer(bytes));
  static_cast<void>(fingerprint_of(text));
  static_cast<void>(authority().sign(text, "paris", host_validity(wall_time())));
  shake_hands(bytes, size_t{data[0]} + 1);
  return 0;
}
