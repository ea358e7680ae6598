// One .bin of token ids, read where it lies: a file of any size costs no memory.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "base/file_digest.h"
#include "base/result.h"
#include "perform/data/mapped_file.h"
#include "spec/plan/settings.h"

namespace tombolo::data {

class TokenFile {
 public:
  // `format` and `type` as the job says them (plan::Data), or nothing. Of Megatron-LM's files the
  // whole .idx is checked, O(sequences). Unusable, by file and byte, where that and the .bin do not
  // belong together, or where a .bin is no whole number of ids.
  static Result<TokenFile> open(const std::string& path, std::optional<plan::TokenFormat> format,
                                std::optional<plan::TokenType> type);

  const std::string& path() const { return file_.path(); }
  int64_t tokens() const { return tokens_; }
  int64_t bytes() const { return file_.size(); }
  plan::TokenType type() const { return type_; }

  // Whether copies are the same: the digest is of the type of ids and of all bytes, or, of a file
  // longer than that, of about `bytes_max` of them in pieces that lie evenly between its beginning
  // and its end. So a file that was cut, shifted or written anew is told apart, and a single byte
  // of a file of terabytes may not be: to read all of it would take hours. Lets go of what it has
  // read. Unusable where the file has become shorter.
  Result<FileDigest> content(int64_t bytes_max) const;

  // Ids `first`, `first` + 1 ... into all of `out`, which must lie in the file. Unusable, by
  // position and value, at an id that is not in 0 .. vocabulary - 1: files are not read through
  // beforehand. Lets go of what it has read.
  Status read(int64_t first, std::span<int64_t> out, int64_t vocabulary) const;

 private:
  TokenFile(MappedFile file, plan::TokenType type, int64_t tokens)
      : file_(std::move(file)), type_(type), tokens_(tokens) {}
  MappedFile file_;
  plan::TokenType type_;
  int64_t tokens_;
};

// "corpus.idx" of "corpus.bin".
std::string index_path_of(const std::string& path);

}  // namespace tombolo::data
