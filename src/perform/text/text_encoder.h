// Texts to token ids, whatever format a model's tokenizer is in.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace tombolo::text {

// Tokens that stand around every text.
struct TextFrame {
  std::vector<int64_t> before, after;
  bool operator==(const TextFrame&) const = default;
};

class TextEncoder {
 public:
  virtual ~TextEncoder() = default;

  // The ids of a document, without what would be added around it. Unusable, by byte, where it is no
  // UTF-8. For one thread at a time.
  virtual Result<std::vector<int64_t>> encode(std::string_view text) = 0;

  // The same for untrusted text: "<|endoftext|>" in it is encoded as text, not as that token.
  virtual Result<std::vector<int64_t>> encode_plain(std::string_view text) = 0;

  // What a token stands for, which may be a part of a character; nothing for those that are no text,
  // as "</s>", and for ids that are none. For any thread.
  virtual std::string bytes_of(int64_t id) const = 0;

  // The id of a token by its content, such as "<|endoftext|>" or "</s>".
  virtual std::optional<int64_t> id_of(const std::string& token) const = 0;
  virtual int64_t vocabulary() const = 0;  // ids are below it

  // What the file says stands around a text; nothing where files of its kind do not say it.
  virtual std::optional<TextFrame> around() const { return std::nullopt; }
};

// A tokenizer.json (tokenizer.h), or what SentencePiece wrote (sentence_pieces.h), which is no JSON.
Result<std::unique_ptr<TextEncoder>> read_tokenizer(const std::string& path);
Result<std::unique_ptr<TextEncoder>> parse_tokenizer(std::string_view file,
                                                     const std::string& name);

}  // namespace tombolo::text
