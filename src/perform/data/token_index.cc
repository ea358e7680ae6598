#include "perform/data/token_index.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <optional>

#include "base/check.h"

namespace tombolo::data {
namespace {

static_assert(std::endian::native == std::endian::little, "token files are little-endian");

using plan::TokenType;

constexpr std::string_view kMagic("MMIDIDX\0\0", 9);
constexpr size_t kTypeAt = 17;
constexpr size_t kSequencesAt = 18;
constexpr size_t kDocumentsAt = 26;
constexpr size_t kHeaderBytes = 34;
constexpr int64_t kBlock = 65'536;  // entries between two reports of progress

struct TypeCode {
  uint8_t code;
  TokenType type;
};
// int8 (2) and floating-point numbers (6, 7) hold no token ids.
constexpr std::array<TypeCode, 5> kCodes = {{{1, TokenType::kUint8},
                                             {3, TokenType::kInt16},
                                             {4, TokenType::kInt32},
                                             {5, TokenType::kInt64},
                                             {8, TokenType::kUint16}}};

template <class Number>
Number number_at(std::span<const std::byte> bytes, size_t at) {
  Number out;
  std::memcpy(&out, bytes.data() + at, sizeof out);
  return out;
}

template <class Number>
void append(std::string& text, Number number) {
  const auto raw = std::bit_cast<std::array<char, sizeof number>>(number);
  text.append(raw.data(), raw.size());
}

tl::unexpected<Error> bad_index(const std::string& file, size_t at, std::string what) {
  return unusable(fmt::format("{}: byte {}: {}", file, at, std::move(what)),
                  "the .idx that was written with its .bin; tombolo tokenize writes both again");
}

// The sequences from `first` on to `last`; `end` is where the ones before end in the .bin.
Status check_sequences(const TokenIndex& index, std::span<const std::byte> bytes,
                       const std::string& file, int64_t first, int64_t last, int64_t& end) {
  const int64_t width = bytes_of(index.type);
  for (int64_t i = first; i < last; ++i) {
    const size_t size_at = index.sizes_begin() + static_cast<size_t>(i) * sizeof(int32_t);
    const size_t pointer_at = index.pointers_begin() + static_cast<size_t>(i) * sizeof(int64_t);
    const auto size = number_at<int32_t>(bytes, size_at);
    const auto pointer = number_at<int64_t>(bytes, pointer_at);
    if (size < 0)
      return bad_index(file, size_at, fmt::format("sequence {} has {} tokens", i, size));
    if (pointer != end) {
      return bad_index(file, pointer_at,
                       fmt::format("sequence {} begins at byte {} of the .bin, those before it end "
                                   "at byte {}",
                                   i, pointer, end));
    }
    end += size * width;  // at most 2^31 x 8 x the entries of a file: no overflow below 2^27 GB
  }
  return {};
}

Status check_documents(const TokenIndex& index, std::span<const std::byte> bytes,
                       const std::string& file, int64_t first, int64_t last, int64_t& before) {
  for (int64_t i = first; i < last; ++i) {
    const size_t at = index.documents_begin() + static_cast<size_t>(i) * sizeof(int64_t);
    const auto begin = number_at<int64_t>(bytes, at);
    const bool last_entry = i + 1 == index.documents;
    if (begin < before || begin > index.sequences || (i == 0 && begin != 0) ||
        (last_entry && begin != index.sequences)) {
      return bad_index(file, at,
                       fmt::format("entry {} of {} documents is sequence {}; wanted one from {} to "
                                   "{}{}",
                                   i, index.documents, begin, before, index.sequences,
                                   last_entry ? ", which ends the list" : ""));
    }
    before = begin;
  }
  return {};
}

}  // namespace

int64_t bytes_of(TokenType type) {
  switch (type) {
    case TokenType::kUint8:
      return 1;
    case TokenType::kInt16:
    case TokenType::kUint16:
      return 2;
    case TokenType::kInt32:
    case TokenType::kUint32:
      return 4;
    case TokenType::kInt64:
      return 8;
  }
  CHECK(false, "token type {}", static_cast<int>(type));
}

size_t TokenIndex::sizes_begin() const { return kHeaderBytes; }
size_t TokenIndex::pointers_begin() const {
  return sizes_begin() + static_cast<size_t>(sequences) * sizeof(int32_t);
}
size_t TokenIndex::documents_begin() const {
  return pointers_begin() + static_cast<size_t>(sequences) * sizeof(int64_t);
}
size_t TokenIndex::end() const {
  return documents_begin() + static_cast<size_t>(documents) * sizeof(int64_t);
}

Result<TokenIndex> read_token_index(std::span<const std::byte> bytes, const std::string& file) {
  if (bytes.size() < kHeaderBytes) {
    return bad_index(file, bytes.size(),
                     fmt::format("it ends within the {} bytes of its header", kHeaderBytes));
  }
  if (std::memcmp(bytes.data(), kMagic.data(), kMagic.size()) != 0) {
    return bad_index(file, 0, "it does not begin with MMIDIDX, as Megatron-LM's .idx files do");
  }
  const auto version = number_at<uint64_t>(bytes, kMagic.size());
  if (version != 1) {
    return bad_index(file, kMagic.size(), fmt::format("version {}, known is 1", version));
  }
  TokenIndex index;
  const auto code = number_at<uint8_t>(bytes, kTypeAt);
  const auto found = std::find_if(kCodes.begin(), kCodes.end(),
                                  [&](const TypeCode& known) { return known.code == code; });
  if (found == kCodes.end()) {
    return bad_index(file, kTypeAt,
                     fmt::format("dtype code {} is none of 1 (uint8), 3 (int16), 4 (int32), 5 "
                                 "(int64) and 8 (uint16)",
                                 code));
  }
  index.type = found->type;
  const auto sequences = number_at<uint64_t>(bytes, kSequencesAt);
  const auto documents = number_at<uint64_t>(bytes, kDocumentsAt);
  const size_t room = bytes.size() - kHeaderBytes;
  constexpr size_t kPerSequence = sizeof(int32_t) + sizeof(int64_t);
  if (sequences > room / kPerSequence) {
    return bad_index(file, kSequencesAt,
                     fmt::format("{} sequences do not fit into {} bytes", sequences, bytes.size()));
  }
  if (documents > (room - sequences * kPerSequence) / sizeof(int64_t)) {
    return bad_index(file, kDocumentsAt,
                     fmt::format("{} sequences and {} documents do not fit into {} bytes",
                                 sequences, documents, bytes.size()));
  }
  index.sequences = static_cast<int64_t>(sequences);
  index.documents = static_cast<int64_t>(documents);
  const size_t rest = bytes.size() - index.end();
  if (rest != 0 && rest != sequences) {
    return bad_index(file, index.end(),
                     fmt::format("{} bytes follow what {} sequences and {} documents take", rest,
                                 sequences, documents));
  }
  return index;
}

Result<int64_t> check_token_index(const TokenIndex& index, std::span<const std::byte> bytes,
                                  const std::string& file,
                                  const std::function<void(size_t, size_t)>& passed) {
  int64_t end = 0;
  for (int64_t first = 0; first < index.sequences; first += kBlock) {
    const int64_t last = std::min(first + kBlock, index.sequences);
    TRY(check_sequences(index, bytes, file, first, last, end));
    const auto from = static_cast<size_t>(first), to = static_cast<size_t>(last);
    passed(index.sizes_begin() + from * sizeof(int32_t),
           index.sizes_begin() + to * sizeof(int32_t));
    passed(index.pointers_begin() + from * sizeof(int64_t),
           index.pointers_begin() + to * sizeof(int64_t));
  }
  int64_t before = 0;
  for (int64_t first = 0; first < index.documents; first += kBlock) {
    const int64_t last = std::min(first + kBlock, index.documents);
    TRY(check_documents(index, bytes, file, first, last, before));
    passed(index.documents_begin() + static_cast<size_t>(first) * sizeof(int64_t),
           index.documents_begin() + static_cast<size_t>(last) * sizeof(int64_t));
  }
  return end / bytes_of(index.type);
}

std::string token_index_text(TokenType type, std::span<const int32_t> sizes) {
  const auto found = std::find_if(kCodes.begin(), kCodes.end(),
                                  [&](const TypeCode& known) { return known.type == type; });
  CHECK(found != kCodes.end(), "the format has no {}", to_name(type));
  std::string text(kMagic);
  append(text, uint64_t{1});
  append(text, found->code);
  append(text, uint64_t{sizes.size()});
  append(text, uint64_t{sizes.size() + 1});
  for (const int32_t size : sizes) append(text, size);
  int64_t pointer = 0;
  for (const int32_t size : sizes) {
    append(text, pointer);
    pointer += size * bytes_of(type);
  }
  for (size_t i = 0; i <= sizes.size(); ++i) append(text, static_cast<int64_t>(i));
  return text;
}

}  // namespace tombolo::data
