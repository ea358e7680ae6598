#include "perform/data/token_writer.h"

#include <limits>
#include <utility>

#include "perform/data/token_index.h"

namespace tombolo::data {
namespace {

constexpr size_t kWriteBytes = size_t{1} << 20;

std::pair<int64_t, int64_t> range_of(plan::TokenType type) {
  switch (type) {
    case plan::TokenType::kUint8:
      return {0, UINT8_MAX};
    case plan::TokenType::kInt16:
      return {0, INT16_MAX};
    case plan::TokenType::kUint16:
      return {0, UINT16_MAX};
    case plan::TokenType::kInt32:
      return {0, INT32_MAX};
    case plan::TokenType::kUint32:
      return {0, UINT32_MAX};
    case plan::TokenType::kInt64:
      break;
  }
  return {0, INT64_MAX};
}

}  // namespace

TokenWriter::TokenWriter(std::string prefix, plan::TokenFormat format, plan::TokenType type,
                         AtomicFile bin)
    : prefix_(std::move(prefix)), format_(format), type_(type), bin_(std::move(bin)) {}

Result<TokenWriter> TokenWriter::create(const std::string& prefix, plan::TokenFormat format,
                                        plan::TokenType type) {
  if (format == plan::TokenFormat::kMegatron && type == plan::TokenType::kUint32) {
    return unusable("a .idx has no code for uint32", "int32, or the format nanogpt");
  }
  AtomicFile bin = TRY(AtomicFile::create(prefix + ".bin"));
  return TokenWriter(prefix, format, type, std::move(bin));
}

Status TokenWriter::add(std::span<const int64_t> document) {
  if (document.empty()) return {};
  if (document.size() > size_t{INT32_MAX}) {
    return unusable(fmt::format("document {} has {} tokens, a sequence holds {}", documents_,
                                document.size(), INT32_MAX),
                    "several documents instead of one");
  }
  const auto [min, max] = range_of(type_);
  const auto width = static_cast<size_t>(bytes_of(type_));
  for (const int64_t& id : document) {
    if (id < min || id > max) {
      return unusable(fmt::format("{}.bin: token {} of document {} is {}, which {} cannot hold",
                                  prefix_, &id - document.data(), documents_, id, to_name(type_)),
                      "a wider dtype");
    }
    buffer_.append(reinterpret_cast<const char*>(&id), width);  // little-endian: its low bytes
  }
  tokens_ += static_cast<int64_t>(document.size());
  ++documents_;
  if (format_ == plan::TokenFormat::kMegatron) {
    sizes_.push_back(static_cast<int32_t>(document.size()));
  }
  if (buffer_.size() < kWriteBytes) return {};
  TRY(bin_.write(buffer_));
  buffer_.clear();
  return {};
}

Status TokenWriter::finish() {
  TRY(bin_.write(buffer_));
  buffer_.clear();
  if (format_ == plan::TokenFormat::kMegatron) {
    // It comes first: a .bin alone would pass for nanoGPT's.
    TRY(write_file(prefix_ + ".idx", token_index_text(type_, sizes_)));
  }
  return bin_.commit();
}

}  // namespace tombolo::data
