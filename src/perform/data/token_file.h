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
  // whole .idx is checked, O(sequences). A bare .bin has ids of default_type(vocabulary), or says by
  // llm.c's header what they are. Unusable, by file and byte, where an .idx or a header and the .bin
  // do not belong together, where a .bin is no whole number of ids, or has a wider type than is said.
  static Result<TokenFile> open(const std::string& path, std::optional<plan::TokenFormat> format,
                                std::optional<plan::TokenType> type, int64_t vocabulary = 0);

  const std::string& path() const { return file_.path(); }
  int64_t tokens() const { return shape_.tokens; }
  int64_t bytes() const { return file_.size(); }
  plan::TokenType type() const { return shape_.type; }

  // Whether copies are the same: the digest is of the type of ids and of all bytes, or, of a file
  // longer than that, of about `bytes_max` of them in pieces that lie evenly between its beginning
  // and its end. So a file that was cut, shifted or rewritten is detected; a single changed byte
  // in a file of terabytes may not be, as reading all of it would take hours. Releases the pages it
  // has read. Unusable if the file has become shorter.
  Result<FileDigest> content(int64_t bytes_max) const;

  // Ids `first`, `first` + 1 ... into all of `out`, which must lie in the file. Unusable, by
  // position and value, at an id that is not in 0 .. vocabulary - 1: files are not checked in full
  // beforehand. Releases the pages it has read.
  Status read(int64_t first, std::span<int64_t> out, int64_t vocabulary) const;

 private:
  // Where the ids are, and what.
  struct Shape {
    plan::TokenType type = plan::TokenType::kUint16;
    int64_t tokens = 0;
    int64_t begin = 0;  // byte
  };
  TokenFile(MappedFile file, Shape shape) : file_(std::move(file)), shape_(shape) {}
  static Result<Shape> bare_shape(const MappedFile& bin, std::optional<plan::TokenType> said,
                                  int64_t vocabulary);
  static Result<Shape> megatron_shape(const MappedFile& bin, std::optional<plan::TokenType> said);
  MappedFile file_;
  Shape shape_;
};

// The narrowest type of the format that holds every id: for bare files what nanoGPT's and
// llm.c's scripts write.
plan::TokenType default_type(plan::TokenFormat format, int64_t vocabulary);

// "corpus.idx" of "corpus.bin".
std::string index_path_of(const std::string& path);

}  // namespace tombolo::data
