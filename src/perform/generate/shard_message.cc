#include "perform/generate/shard_message.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/check.h"

namespace tombolo::generate {
namespace {

static_assert(std::endian::native == std::endian::little, "numbers are sent as they lie in memory");

constexpr uint32_t kShardMagic = 0x31535054;  // "TPS1"

struct ShardHeader {
  uint32_t magic = kShardMagic;
  uint32_t word = 0;
  int64_t prompt = 0;
  uint64_t past = 0;
  uint64_t room = 0;
  uint32_t rows = 0, width = 0;
};
static_assert(sizeof(ShardHeader) == kShardHeaderBytes);

constexpr uint64_t kShardTokensMax = uint64_t{1} << 24;  // so that nothing below overflows
constexpr uint32_t kShardWidthMax = uint32_t{1} << 24;

Error no_message(const char* why) {
  return {ErrorCode::kFailed, fmt::format("no message of a prompt's layers: {}", why), {}, ""};
}

// A word that has no rows: perhaps a text, perhaps where a cache goes.
Status check_without_rows(ShardWord word, const ShardHeader& header, size_t behind) {
  if (header.rows != 0 || header.width != 0) return fail(no_message("rows of what?"));
  const bool has_text = word == ShardWord::kFailed || word == ShardWord::kDecode;
  if (behind > (has_text ? kShardTextMax : 0)) return fail(no_message("too long"));
  if (word != ShardWord::kHandOver) {
    if (header.past != 0 || header.room != 0) return fail(no_message("tokens of what?"));
  } else if (header.past > kShardTokensMax) {  // ids are a front's, and any number
    return fail(no_message("a first token out of range"));
  }
  return {};
}

Status check_header(const ShardHeader& header, size_t behind) {
  const auto word = static_cast<ShardWord>(header.word);
  const bool hidden = word == ShardWord::kHidden, logits = word == ShardWord::kLogits;
  if (!hidden && !logits) return check_without_rows(word, header, behind);
  if (logits && (header.past != 0 || header.room != 0)) return fail(no_message("tokens of what?"));
  if (header.width == 0 || header.width > kShardWidthMax)
    return fail(no_message("rows of no length"));
  if (logits && header.rows != 1) return fail(no_message("logits of other than one token"));
  if (hidden && (header.rows == 0 || header.room > kShardTokensMax || header.past > header.room ||
                 header.rows > header.room - header.past))
    return fail(no_message("tokens out of range"));
  if (uint64_t{header.rows} * header.width * sizeof(float) != behind)
    return fail(no_message("another length than its rows have"));
  return {};
}

}  // namespace

std::vector<std::byte> encode(const ShardMessage& message) {
  const int64_t width = message.rows == 0 ? 0 : std::ssize(message.numbers) / message.rows;
  CHECK(width * message.rows == std::ssize(message.numbers), "{} numbers in {} rows",
        message.numbers.size(), message.rows);
  const bool hands_over = message.word == ShardWord::kHandOver;
  const ShardHeader header{
      .word = static_cast<uint32_t>(message.word),
      .prompt = message.prompt,
      .past = static_cast<uint64_t>(hands_over ? message.first_token : message.past),
      .room = static_cast<uint64_t>(hands_over ? message.id : message.room),
      .rows = static_cast<uint32_t>(message.rows),
      .width = static_cast<uint32_t>(width)};
  const size_t numbers = message.numbers.size() * sizeof(float);
  const size_t text = std::min(message.text.size(), kShardTextMax);
  std::vector<std::byte> out(kShardHeaderBytes + numbers + text);
  std::memcpy(out.data(), &header, kShardHeaderBytes);
  if (numbers > 0) std::memcpy(out.data() + kShardHeaderBytes, message.numbers.data(), numbers);
  if (text > 0) std::memcpy(out.data() + kShardHeaderBytes + numbers, message.text.data(), text);
  return out;
}

Result<ShardMessage> decode_shard_message(std::span<const std::byte> bytes) {
  if (bytes.size() < kShardHeaderBytes) return fail(no_message("too short"));
  ShardHeader header;
  std::memcpy(&header, bytes.data(), kShardHeaderBytes);
  if (header.magic != kShardMagic || header.word < static_cast<uint32_t>(ShardWord::kHidden) ||
      header.word > static_cast<uint32_t>(ShardWord::kDecode))
    return fail(no_message("something else"));
  const auto behind = bytes.subspan(kShardHeaderBytes);
  TRY(check_header(header, behind.size()));
  ShardMessage out{.word = static_cast<ShardWord>(header.word), .prompt = header.prompt};
  const auto past = static_cast<int64_t>(header.past), room = static_cast<int64_t>(header.room);
  (out.word == ShardWord::kHandOver ? out.first_token : out.past) = past;
  (out.word == ShardWord::kHandOver ? out.id : out.room) = room;
  out.rows = header.rows;
  if (header.rows > 0) {
    out.numbers.resize(behind.size() / sizeof(float));
    std::memcpy(out.numbers.data(), behind.data(), behind.size());
  } else {
    out.text.assign(reinterpret_cast<const char*>(behind.data()), behind.size());
  }
  return out;
}

}  // namespace tombolo::generate
