// The .idx of a .bin of token ids, as Megatron-LM's MMapIndexedDataset writes it.
//
//   9 bytes   "MMIDIDX\0\0"
//   u64       version, 1
//   u8        how a token stands in the .bin: 1 uint8, 3 int16, 4 int32, 5 int64, 8 uint16
//   u64       n, sequences
//   u64       d, entries of the list of documents
//   n x i32   tokens of each sequence
//   n x i64   the byte of the .bin where each begins
//   d x i64   the sequence with which each document begins, and n at the end
//   n x i8    the mode of each sequence: in files of several modes alone
//
// All little-endian. Lengths are checked against the file before anything is read by them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "base/result.h"
#include "spec/plan/settings.h"

namespace tombolo::data {

int64_t bytes_of(plan::TokenType type);

struct TokenIndex {
  plan::TokenType type = plan::TokenType::kUint16;
  int64_t sequences = 0;
  int64_t documents = 0;  // entries of their list, one more than there are documents

  size_t sizes_begin() const;  // bytes of the .idx
  size_t pointers_begin() const;
  size_t documents_begin() const;
  size_t end() const;  // where the modes begin, or the file ends
};

// The header, and whether the file is as long as it says. O(1). `file` is its name in messages.
Result<TokenIndex> read_token_index(std::span<const std::byte> bytes, const std::string& file);

// Every entry: sequences that follow each other without a gap, documents in order. Returns the
// tokens of all sequences. O(n + d); `passed(begin, end)` is called for bytes that are not read
// again.
Result<int64_t> check_token_index(
    const TokenIndex& index, std::span<const std::byte> bytes, const std::string& file,
    const std::function<void(size_t begin, size_t end)>& passed = [](size_t, size_t) {});

// The whole file, for sequences of `sizes` tokens, each sequence a document.
std::string token_index_text(plan::TokenType type, std::span<const int32_t> sizes);

}  // namespace tombolo::data
