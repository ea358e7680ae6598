#include "perform/generate/kv_rows.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/check.h"

namespace tombolo::generate {
namespace {

static_assert(std::endian::native == std::endian::little, "rows are sent as they lie in memory");

constexpr uint32_t kMagic = 0x31564B54;  // "TKV1"

struct Header {
  uint32_t magic = kMagic;
  uint32_t half = 0;
  int64_t id = 0;
  uint64_t tokens = 0;
  uint64_t first_token = 0;
  uint32_t layers = 0, layer = 0;
  uint32_t width = 0, count = 0;
  uint64_t first = 0;
};
static_assert(sizeof(Header) == kKvHeaderBytes);

constexpr uint64_t kTokensMax = uint64_t{1} << 31;  // so that nothing below overflows
constexpr uint32_t kLayersMax = 1 << 16;

Error no_rows(const char* why) {
  return {ErrorCode::kFailed, fmt::format("no keys and values of a prompt: {}", why), {}, ""};
}

}  // namespace

KvMessage encode(const KvRows& rows) {
  const Header header{.half = rows.values ? 1U : 0U,
                      .id = rows.id,
                      .tokens = static_cast<uint64_t>(rows.tokens),
                      .first_token = static_cast<uint64_t>(rows.first_token),
                      .layers = static_cast<uint32_t>(rows.shape.layers),
                      .layer = static_cast<uint32_t>(rows.layer),
                      .width = static_cast<uint32_t>(rows.shape.width),
                      .count = static_cast<uint32_t>(rows.count),
                      .first = static_cast<uint64_t>(rows.first)};
  KvMessage out(kKvHeaderBytes + rows.numbers.size());
  std::memcpy(out.data(), &header, kKvHeaderBytes);
  std::memcpy(out.data() + kKvHeaderBytes, rows.numbers.data(), rows.numbers.size());
  return out;
}

Result<KvRows> decode_kv_rows(std::span<const std::byte> message) {
  if (message.size() < kKvHeaderBytes) return fail(no_rows("too short"));
  if (message.size() > kKvMessageMax) return fail(no_rows("too long"));
  Header header;
  std::memcpy(&header, message.data(), kKvHeaderBytes);
  if (header.magic != kMagic || header.half > 1) return fail(no_rows("something else"));
  if (header.tokens == 0 || header.tokens > kTokensMax || header.first_token > kTokensMax)
    return fail(no_rows("tokens out of range"));
  if (header.layers == 0 || header.layers > kLayersMax || header.layer >= header.layers)
    return fail(no_rows("a layer out of range"));
  if (header.count == 0 || header.first > header.tokens ||
      header.count > header.tokens - header.first)
    return fail(no_rows("rows out of range"));
  const auto numbers = message.subspan(kKvHeaderBytes);
  const uint64_t bytes = uint64_t{header.count} * header.width;  // below 2^64: both have 32 bits
  if (header.width == 0 || bytes > kKvMessageMax || bytes * sizeof(float) != numbers.size())
    return fail(no_rows("another length than its rows have"));
  return KvRows{.id = header.id,
                .tokens = static_cast<int64_t>(header.tokens),
                .first_token = static_cast<int64_t>(header.first_token),
                .shape = {.layers = header.layers, .width = header.width},
                .layer = header.layer,
                .values = header.half == 1,
                .first = static_cast<int64_t>(header.first),
                .count = header.count,
                .numbers = numbers};
}

Status say_kv_rows(const HandedOver& prompt, const std::function<Status(KvMessage)>& say) {
  KvCache& cache = *prompt.cache;
  const KvShape shape = cache.shape();
  const KvShape whole{.layers = prompt.layers, .width = shape.width};
  const int64_t row_bytes = shape.width * static_cast<int64_t>(sizeof(float));
  const int64_t room = static_cast<int64_t>(kKvMessageMax - kKvHeaderBytes) / row_bytes;
  CHECK(room > 0, "a key of {} bytes", row_bytes);
  for (int64_t half = 0; half < 2 * shape.layers; ++half) {
    for (int64_t first = 0; first < cache.tokens(); first += room) {
      const int64_t count = std::min(room, cache.tokens() - first);
      const bool values = half % 2 == 1;
      const auto numbers =
          values ? cache.values(half / 2, first, count) : cache.keys(half / 2, first, count);
      TRY(say(encode({.id = prompt.id,
                      .tokens = cache.tokens(),
                      .first_token = prompt.first_token,
                      .shape = whole,
                      .layer = prompt.first_layer + half / 2,
                      .values = values,
                      .first = first,
                      .count = count,
                      .numbers = std::as_bytes(numbers)})));
    }
  }
  return {};
}

Status KvIntake::take(std::span<const std::byte> message) {
  const KvRows rows = TRY(decode_kv_rows(message));
  KvCache* cache = engine_.awaiting(rows.id);
  if (!cache) {
    taken_.erase(rows.id);
    return {};
  }
  if (rows.shape != cache->shape()) return fail(no_rows("another model's"));
  if (rows.tokens != engine_.awaited_tokens(rows.id)) return fail(no_rows("another prompt's"));
  // Those that were cancelled on their way are not kept: there are no more than admitted prompts.
  std::erase_if(taken_, [&](const auto& entry) { return !engine_.awaiting(entry.first); });
  Taken& taken = taken_[rows.id];
  if (taken.rows.empty()) {
    taken.rows.resize(static_cast<size_t>(rows.shape.layers));
    taken.first_token = rows.first_token;
  }
  if (rows.first_token != taken.first_token) return fail(no_rows("another first token"));
  int64_t& of_layer = taken.rows[static_cast<size_t>(rows.layer)];
  if ((rows.values ? rows.tokens : 0) + rows.first != of_layer)
    return fail(no_rows("out of order"));
  const auto into = rows.values ? cache->values(rows.layer, rows.first, rows.count)
                                : cache->keys(rows.layer, rows.first, rows.count);
  std::memcpy(into.data(), rows.numbers.data(), rows.numbers.size());
  of_layer += rows.count;
  if (of_layer == 2 * rows.tokens) ++taken.layers;
  if (taken.layers < rows.shape.layers) return {};
  taken_.erase(rows.id);
  return engine_.adopt(rows.id, rows.first_token);
}

}  // namespace tombolo::generate
