// Token files as Megatron-LM or nanoGPT would write them: ids document by document.
//
// No file has its final name before finish(), which creates first the .bin, then the .idx.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/result.h"
#include "spec/plan/settings.h"

namespace tombolo::data {

class TokenWriter {
 public:
  // PREFIX.bin, and PREFIX.idx where the format has one.
  static Result<TokenWriter> create(const std::string& prefix, plan::TokenFormat format,
                                    plan::TokenType type);

  // One document, which is one sequence of the .idx; an empty one is left out. Unusable at an id
  // that the type cannot hold, and where a document has more than 2^31 - 1 ids.
  Status add(std::span<const int64_t> document);
  Status finish();

  int64_t tokens() const { return tokens_; }
  int64_t documents() const { return documents_; }

 private:
  TokenWriter(std::string prefix, plan::TokenFormat format, plan::TokenType type, AtomicFile bin);
  std::string prefix_;
  plan::TokenFormat format_;
  plan::TokenType type_;
  AtomicFile bin_;
  std::vector<int32_t> sizes_;  // of Megatron's documents
  std::string buffer_;
  int64_t tokens_ = 0;
  int64_t documents_ = 0;
};

}  // namespace tombolo::data
