#include "perform/data/token_file.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/check.h"
#include "base/hash.h"
#include "perform/data/token_index.h"

namespace tombolo::data {
namespace {

using plan::TokenFormat;
using plan::TokenType;

template <class Id>
void widen(const std::byte* from, std::span<int64_t> out) {
  for (int64_t& token : out) {
    Id id;
    std::memcpy(&id, from, sizeof id);
    token = id;
    from += sizeof id;
  }
}

void widen(TokenType type, const std::byte* from, std::span<int64_t> out) {
  switch (type) {
    case TokenType::kUint8:
      return widen<uint8_t>(from, out);
    case TokenType::kInt16:
      return widen<int16_t>(from, out);
    case TokenType::kUint16:
      return widen<uint16_t>(from, out);
    case TokenType::kInt32:
      return widen<int32_t>(from, out);
    case TokenType::kUint32:
      return widen<uint32_t>(from, out);
    case TokenType::kInt64:
      return widen<int64_t>(from, out);
  }
}

// The first 256 numbers of llm.c's token files (llm.c, dev/data/data_common.py): a magic number, a
// version, how many ids follow.
struct LlmcHeader {
  TokenType type;
  int64_t tokens;
};
constexpr int64_t kLlmcHeaderBytes = 256 * 4;

std::optional<LlmcHeader> llmc_header(std::span<const std::byte> bytes) {
  if (bytes.size() < size_t{kLlmcHeaderBytes}) return std::nullopt;
  std::array<int32_t, 3> words{};
  std::memcpy(words.data(), bytes.data(), sizeof words);
  const auto [magic, version, tokens] = words;
  if (magic == 20240520 && version == 1) return LlmcHeader{TokenType::kUint16, tokens};
  if (magic == 20240801 && version == 7) return LlmcHeader{TokenType::kUint32, tokens};
  return std::nullopt;
}

// uint32 read as uint16: every second id is 0, and few of the others.
bool looks_wider(std::span<const std::byte> bytes) {
  constexpr size_t kPairs = 64, kPairsMax = 4096;
  const size_t pairs = std::min(bytes.size() / 4, kPairsMax);
  std::array<size_t, 2> zeros{};
  for (size_t i = 0; i < 2 * pairs; ++i) {
    zeros[i % 2] += bytes[2 * i] == std::byte{0} && bytes[2 * i + 1] == std::byte{0};
  }
  return pairs >= kPairs && zeros[1] == pairs && zeros[0] < pairs / 2;
}

}  // namespace

TokenType default_type(TokenFormat format, int64_t vocabulary) {
  if (vocabulary <= int64_t{UINT16_MAX} + 1) return TokenType::kUint16;
  return format == TokenFormat::kMegatron ? TokenType::kInt32 : TokenType::kUint32;
}

Result<TokenFile::Shape> TokenFile::megatron_shape(const MappedFile& bin,
                                                   std::optional<TokenType> said) {
  const MappedFile file = TRY(during(MappedFile::open(index_path_of(bin.path())),
                                     fmt::format("looking for the .idx of {}", bin.path())));
  const TokenIndex index = TRY(read_token_index(file.bytes(), file.path()));
  if (said && *said != index.type) {
    return unusable(fmt::format("{}: its ids are {}, data.dtype says {}", file.path(),
                                to_name(index.type), to_name(*said)),
                    "leaving data.dtype out: the .idx says it");
  }
  const int64_t tokens =
      TRY(check_token_index(index, file.bytes(), file.path(),
                            [&](size_t begin, size_t end) { file.release(begin, end); }));
  if (tokens * bytes_of(index.type) != bin.size()) {
    return unusable(fmt::format("{}: {} bytes; {} describes {} tokens, which take {}", bin.path(),
                                bin.size(), file.path(), tokens, tokens * bytes_of(index.type)),
                    "copying both files again, or writing them again: they do not belong together");
  }
  return Shape{index.type, tokens};
}

Result<TokenFile::Shape> TokenFile::bare_shape(const MappedFile& bin, std::optional<TokenType> said,
                                               int64_t vocabulary) {
  if (const auto header = llmc_header(bin.bytes())) {
    if (said && *said != header->type) {
      return unusable(fmt::format("{}: by its header of llm.c its ids are {}, data.dtype says {}",
                                  bin.path(), to_name(header->type), to_name(*said)),
                      "leaving data.dtype out: the header says it");
    }
    const int64_t bytes = bin.size() - kLlmcHeaderBytes;
    if (bytes != header->tokens * bytes_of(header->type)) {
      return unusable(
          fmt::format("{}: its header of llm.c says {} ids of {} bytes; {} bytes follow it",
                      bin.path(), header->tokens, bytes_of(header->type), bytes),
          "the whole file, or writing it again");
    }
    return Shape{header->type, header->tokens, kLlmcHeaderBytes};
  }
  const TokenType type = said.value_or(default_type(TokenFormat::kNanogpt, vocabulary));
  if (bin.size() % bytes_of(type) != 0) {
    return unusable(fmt::format("{}: {} bytes are no whole number of {} ids, {} bytes each",
                                bin.path(), bin.size(), to_name(type), bytes_of(type)),
                    "data.dtype as the file was written, or the whole file");
  }
  if (!said && type == TokenType::kUint16 && looks_wider(bin.bytes())) {
    return unusable(fmt::format("{}: read as uint16, every second id at its beginning is 0: these "
                                "are ids of four bytes",
                                bin.path()),
                    "data.dtype = \"uint32\", or \"uint16\" if they are not");
  }
  return Shape{type, bin.size() / bytes_of(type)};
}

std::string index_path_of(const std::string& path) {
  return std::filesystem::path(path).replace_extension(".idx").string();
}

Result<TokenFile> TokenFile::open(const std::string& path, std::optional<TokenFormat> format,
                                  std::optional<TokenType> type, int64_t vocabulary) {
  if (path.ends_with(".idx")) {
    return unusable(fmt::format("{}: this is an index", path), "the .bin next to it");
  }
  MappedFile file = TRY(MappedFile::open(path));
  std::error_code none;
  const bool indexed = std::filesystem::exists(index_path_of(path), none);
  const TokenFormat known =
      format.value_or(indexed ? TokenFormat::kMegatron : TokenFormat::kNanogpt);
  const Shape shape = TRY(known == TokenFormat::kMegatron ? megatron_shape(file, type)
                                                          : bare_shape(file, type, vocabulary));
  file.expect_random();
  return TokenFile(std::move(file), shape);
}

Result<FileDigest> TokenFile::content(int64_t bytes_max) const {
  constexpr int64_t kPiece = int64_t{64} << 10;
  TRY(file_.check_length());
  const int64_t size = file_.size();
  const int64_t all = (size + kPiece - 1) / kPiece;
  const int64_t pieces = std::min(all, std::max<int64_t>((bytes_max + kPiece - 1) / kPiece, 2));
  RunningDigest digest;
  digest.add(to_name(type()));
  for (int64_t i = 0; i < pieces; ++i) {
    // Of a whole file one behind the other; else the last one ends with the file.
    const int64_t begin = pieces == all ? i * kPiece : (size - kPiece) * i / (pieces - 1);
    const auto from = static_cast<size_t>(begin);
    const auto to = static_cast<size_t>(std::min(size, begin + kPiece));
    file_.fetch(from, to);
    digest.add({reinterpret_cast<const char*>(file_.bytes().data()) + from, to - from});
    file_.release(from, to);
  }
  return FileDigest{size, digest.text()};
}

Status TokenFile::read(int64_t first, std::span<int64_t> out, int64_t vocabulary) const {
  const auto count = static_cast<int64_t>(out.size());
  CHECK(first >= 0 && first <= tokens() && count <= tokens() - first, "tokens {} to {} of {}: {}",
        first, first + count, tokens(), path());
  TRY(file_.check_length());
  const int64_t width = bytes_of(type());
  const auto begin = static_cast<size_t>(shape_.begin + first * width);
  const size_t end = begin + out.size() * static_cast<size_t>(width);
  file_.fetch(begin, end);
  widen(type(), file_.bytes().data() + begin, out);
  file_.release(begin, end);
  const auto wrong =
      std::find_if(out.begin(), out.end(), [&](int64_t id) { return id < 0 || id >= vocabulary; });
  if (wrong == out.end()) return {};
  const int64_t at = first + (wrong - out.begin());
  return unusable(
      fmt::format("{}: token {} (byte {}) is {}, model.vocabulary is {}", path(), at,
                  shape_.begin + at * width, *wrong, vocabulary),
      fmt::format(
          "the vocabulary of the tokenizer that wrote the file{}",
          *wrong < 0 || *wrong > int64_t{UINT16_MAX} ? ", or data.dtype as it was written" : ""));
}

}  // namespace tombolo::data
