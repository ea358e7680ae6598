// What callers say to a splice: arbitrary bytes as prefaces, as they are and with a code that fits,
// and the calls of those that are believed.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <set>
#include <span>

#include "base/check.h"
#include "perform/link/splice.h"
#include "perform/trust/message_code.h"

using namespace tombolo;
using namespace tombolo::link;

namespace {

constexpr int32_t kRanks = 4;
constexpr size_t kSigned = 24;

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::span bytes(reinterpret_cast<const std::byte*>(data), size);
  const Token token;
  Pairing pairing;
  std::set<Pairing::Id> waiting;
  for (Pairing::Id id = 1; bytes.size() >= kSigned; ++id, bytes = bytes.subspan(kSigned)) {
    Preface preface{};
    std::copy_n(bytes.begin(), std::min(bytes.size(), preface.size()), preface.begin());
    static_cast<void>(decode_preface(token, kRanks, preface));
    const auto code = trust::message_code(token.bytes(), std::span(preface).first(kSigned));
    std::copy(code.begin(), code.end(), preface.begin() + kSigned);
    const auto call = decode_preface(token, kRanks, preface);
    if (!call) continue;
    CHECK(call->from >= 0 && call->from < kRanks && call->to >= 0 && call->to < kRanks &&
              call->from != call->to && call->connection < kConnectionsMax,
          "rank {} was welcome to rank {}", call->from, call->to);
    CHECK(encode_preface(token, *call) == preface, "a preface reads differently");
    const Pairing::Answer answer = pairing.add(id, *call);
    if (answer.replaced) CHECK(waiting.erase(*answer.replaced) == 1, "nobody was replaced");
    if (answer.partner) {
      CHECK(waiting.erase(*answer.partner) == 1, "joined to nobody");
    } else {
      waiting.insert(id);
    }
    CHECK(pairing.waiting() == waiting.size(), "{} wait", pairing.waiting());
    CHECK(waiting.size() <= kRanks * (kRanks - 1) * kConnectionsMax, "{} wait", waiting.size());
  }
  return 0;
}
