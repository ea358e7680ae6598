// Byte-level byte pair encoding (Sennrich et al. 2016, Radford et al. 2019): a word's bytes, joined
// pair by pair: the pair that was learned earliest first, of equal ones the leftmost.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "base/value.h"

namespace tombolo::text {

// GPT-2's alphabet: a printable character for every byte, most of them the byte itself, "Ġ" for a
// space. Vocabularies spell their words in it.
std::string spelt(std::string_view bytes);
// The way back. Characters that are not of the alphabet stay what they are.
std::string unspelt(std::string_view spelling);

class BytePairs {
 public:
  // The table `model` of a tokenizer.json named `name`. Unusable, by its place, where it is of
  // another kind, or a pair leads to a word that is not there.
  static Result<BytePairs> read(const Value& model, const std::string& name);

  // Appends the ids of `word`, as it stands in the text. O(n log n) in its bytes. Unusable where
  // the vocabulary lacks one of them.
  Status encode(std::string_view word, std::vector<int64_t>& out) const;

  // The bytes of a token; empty for an id that is none.
  std::string bytes_of(int64_t id) const;

  std::optional<int64_t> find(const std::string& spelling) const;
  int64_t id_max() const { return id_max_; }  // -1 where the vocabulary is empty

 private:
  struct Merge {
    int64_t rank = 0;
    int64_t id = 0;
  };
  Status read_vocabulary(const Value* vocabulary, const std::string& name);
  Status read_merges(const Value* merges, const std::string& name);
  Status read_merge(const Value& merge, int64_t rank, const std::string& where);
  const Merge* merge_of(int64_t left, int64_t right) const;

  std::unordered_map<std::string, int64_t> ids_;
  std::unordered_map<int64_t, std::string> spellings_;
  std::unordered_map<uint64_t, Merge> merges_;     // by both ids
  std::array<std::optional<int64_t>, 256> bytes_;  // the id of each
  int64_t id_max_ = -1;
  bool whole_words_first_ = false;  // ignore_merges: a word of the vocabulary is not taken apart
};

}  // namespace tombolo::text
