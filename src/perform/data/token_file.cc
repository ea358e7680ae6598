#include "perform/data/token_file.h"

#include <algorithm>
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

struct Shape {
  TokenType type = TokenType::kUint16;
  int64_t tokens = 0;
};

Result<Shape> megatron_shape(const MappedFile& bin, std::optional<TokenType> said) {
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
                    "copying both files again, or writing them anew: they do not belong together");
  }
  return Shape{index.type, tokens};
}

Result<Shape> nanogpt_shape(const MappedFile& bin, std::optional<TokenType> said) {
  const TokenType type = said.value_or(TokenType::kUint16);
  if (bin.size() % bytes_of(type) != 0) {
    return unusable(fmt::format("{}: {} bytes are no whole number of {} ids, {} bytes each",
                                bin.path(), bin.size(), to_name(type), bytes_of(type)),
                    "data.dtype as the file was written, or the whole file");
  }
  return Shape{type, bin.size() / bytes_of(type)};
}

}  // namespace

std::string index_path_of(const std::string& path) {
  return std::filesystem::path(path).replace_extension(".idx").string();
}

Result<TokenFile> TokenFile::open(const std::string& path, std::optional<TokenFormat> format,
                                  std::optional<TokenType> type) {
  if (path.ends_with(".idx")) {
    return unusable(fmt::format("{}: this is an index", path), "the .bin beside it");
  }
  MappedFile file = TRY(MappedFile::open(path));
  std::error_code none;
  const bool indexed = std::filesystem::exists(index_path_of(path), none);
  const TokenFormat known =
      format.value_or(indexed ? TokenFormat::kMegatron : TokenFormat::kNanogpt);
  const Shape shape =
      TRY(known == TokenFormat::kMegatron ? megatron_shape(file, type) : nanogpt_shape(file, type));
  file.expect_random();
  return TokenFile(std::move(file), shape.type, shape.tokens);
}

Result<FileDigest> TokenFile::content(int64_t bytes_max) const {
  constexpr int64_t kPiece = int64_t{64} << 10;
  TRY(file_.check_length());
  const int64_t size = file_.size();
  const int64_t all = (size + kPiece - 1) / kPiece;
  const int64_t pieces = std::min(all, std::max<int64_t>((bytes_max + kPiece - 1) / kPiece, 2));
  RunningDigest digest;
  digest.add(to_name(type_));
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
  CHECK(first >= 0 && first <= tokens_ && count <= tokens_ - first, "tokens {} to {} of {}: {}",
        first, first + count, tokens_, path());
  TRY(file_.check_length());
  const int64_t width = bytes_of(type_);
  const auto begin = static_cast<size_t>(first * width);
  const size_t end = begin + out.size() * static_cast<size_t>(width);
  file_.fetch(begin, end);
  widen(type_, file_.bytes().data() + begin, out);
  file_.release(begin, end);
  const auto wrong =
      std::find_if(out.begin(), out.end(), [&](int64_t id) { return id < 0 || id >= vocabulary; });
  if (wrong == out.end()) return {};
  const int64_t at = first + (wrong - out.begin());
  return unusable(
      fmt::format("{}: token {} (byte {}) is {}, model.vocabulary is {}", path(), at, at * width,
                  *wrong, vocabulary),
      fmt::format(
          "the vocabulary of the tokenizer that wrote the file{}",
          *wrong < 0 || *wrong >= int64_t{1} << 24 ? ", or data.dtype as it was written" : ""));
}

}  // namespace tombolo::data
