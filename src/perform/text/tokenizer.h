// Texts to token ids, as a tokenizer.json of Hugging Face's `tokenizers` says: byte-level BPE in
// the ways of GPT-2, Llama 3, Qwen and their relatives.
//
// A text goes through: added tokens that stand in it as they are (special ones too), the
// normalizer, added tokens that are looked for after it (as it changes them, too), the pre-tokenizer
// step by step, and the pairs of each word. around() returns what the post-processor would add
// around a text; adding it is left to the caller.
//
// Entries of a tokenizer.json that this version does not know are refused by name.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "perform/text/byte_pairs.h"
#include "perform/text/split_pattern.h"
#include "perform/text/text_encoder.h"
#include "perform/text/unicode_text.h"

namespace tombolo::text {

// Tokens that are words as a whole, longest first where several fit.
class AddedTokens {
 public:
  void add(const std::string& content, int64_t id);

  struct Match {
    size_t begin = 0, end = 0;
    int64_t id = 0;
  };
  std::optional<Match> next(std::string_view text, size_t from) const;

 private:
  struct Entry {
    std::string content;
    int64_t id = 0;
  };
  std::array<std::vector<Entry>, 256> by_first_byte_;
};

class Tokenizer final : public TextEncoder {
 public:
  static Result<Tokenizer> read(const std::string& path);
  static Result<Tokenizer> parse(std::string_view json, const std::string& name);

  // Remembers words.
  Result<std::vector<int64_t>> encode(std::string_view text) override;
  Result<std::vector<int64_t>> encode_plain(std::string_view text) override;
  std::string bytes_of(int64_t id) const override;
  std::optional<int64_t> id_of(const std::string& token) const override;
  int64_t vocabulary() const override;
  std::optional<TextFrame> around() const override { return around_; }

 private:
  // One step of the pre-tokenizer.
  struct Step {
    std::optional<SplitPattern> pattern;
    bool prefix_space = false;       // before a piece that has none
    std::optional<bool> drops = {};  // pieces that match (true) or do not (false)
  };

  explicit Tokenizer(BytePairs pairs) : pairs_(std::move(pairs)) {}
  Status read_added_tokens(const Value* list, const std::string& name);
  Status read_post_processor(const Value& step, const std::string& where);
  Result<std::vector<int64_t>> read_template(const Value::Array& pieces, const Value& step,
                                             const std::string& where);
  Status read_normalizer(const Value& normalizer, const std::string& where);
  Status read_pre_tokenizer(const Value& step, const std::string& where);
  Status read_byte_level(const Value& step, const std::string& where);
  Status read_split(const Value& step, const std::string& where);

  Result<std::string> normal_form(std::string_view text) const;
  Status encode_raw(std::string_view text, bool with_added, std::vector<int64_t>& out);
  Status encode_from(size_t step, std::string_view piece, std::vector<int64_t>& out);
  Status encode_word(std::string_view word, std::vector<int64_t>& out);

  BytePairs pairs_;
  AddedTokens before_, after_;  // the normalizer
  int64_t added_max_ = -1;
  std::unordered_map<std::string, int64_t> added_ids_;
  std::unordered_map<int64_t, std::string> added_bytes_;  // empty for special ones
  std::vector<NormalForm> normalizers_;
  std::vector<Step> steps_;
  bool byte_level_ = false;
  TextFrame around_;
  std::unordered_map<std::string, std::vector<int64_t>> words_;
};

}  // namespace tombolo::text
