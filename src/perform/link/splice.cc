#include "perform/link/splice.h"

#include <algorithm>
#include <string_view>

#include "perform/trust/message_code.h"

namespace tombolo::link {
namespace {

constexpr std::string_view kSpliceMagic = "TMBSPLCE";
constexpr uint32_t kVersion = 1;
constexpr size_t kSigned = 24;  // bytes, before the code

void put(Preface& out, size_t at, uint32_t number) {
  for (size_t i = 0; i < 4; ++i) out[at + i] = static_cast<std::byte>(number >> (8 * i));
}

uint32_t number_at(const Preface& bytes, size_t at) {
  uint32_t number = 0;
  for (size_t i = 0; i < 4; ++i) number |= static_cast<uint32_t>(bytes[at + i]) << (8 * i);
  return number;
}

}  // namespace

Preface encode_preface(const Token& token, const SpliceCall& call) {
  Preface out{};
  for (size_t i = 0; i < kSpliceMagic.size(); ++i) out[i] = static_cast<std::byte>(kSpliceMagic[i]);
  put(out, 8, kVersion);
  put(out, 12, static_cast<uint32_t>(call.from));
  put(out, 16, static_cast<uint32_t>(call.to));
  put(out, 20, call.connection);
  const auto code = trust::message_code(token.bytes(), std::span(out).first(kSigned));
  std::copy(code.begin(), code.end(), out.begin() + kSigned);
  return out;
}

Result<SpliceCall> decode_preface(const Token& token, int32_t ranks, const Preface& bytes) {
  const std::span all(bytes);
  const auto magic = std::as_bytes(std::span(kSpliceMagic));
  if (!std::equal(magic.begin(), magic.end(), all.begin()))
    return failed("it did not begin as a rank does that wants to be joined to another");
  if (number_at(bytes, 8) != kVersion)
    return failed(fmt::format("the peer speaks splice version {}, this program version {}",
                              number_at(bytes, 8), kVersion));
  const auto code = trust::message_code(token.bytes(), all.first(kSigned));
  if (!trust::same_code(code, all.subspan(kSigned))) return failed("its job token differs");
  const uint32_t from = number_at(bytes, 12), to = number_at(bytes, 16);
  const uint32_t connection = number_at(bytes, 20), count = static_cast<uint32_t>(ranks);
  if (from >= count || to >= count || from == to)
    return failed(fmt::format("rank {} wants rank {}, the job has {} ranks", from, to, ranks));
  if (connection >= kConnectionsMax)
    return failed(fmt::format("it says it is connection {}, counted from 0; a link has 1 to {}",
                              connection, kConnectionsMax));
  return SpliceCall{static_cast<int32_t>(from), static_cast<int32_t>(to), connection};
}

Pairing::Answer Pairing::add(Id id, const SpliceCall& call) {
  Answer answer;
  const auto waits = waiting_.find({call.to, call.from, call.connection});
  if (waits != waiting_.end()) {
    answer.partner = waits->second;
    remove(*answer.partner);
  }
  const Key key{call.from, call.to, call.connection};
  const auto earlier = waiting_.find(key);
  if (earlier != waiting_.end()) {
    answer.replaced = earlier->second;
    remove(*answer.replaced);
  }
  if (!answer.partner) {
    waiting_[key] = id;
    keys_[id] = key;
  }
  return answer;
}

void Pairing::remove(Id id) {
  const auto at = keys_.find(id);
  if (at == keys_.end()) return;
  waiting_.erase(at->second);
  keys_.erase(at);
}

}  // namespace tombolo::link
