// Small files as tokenizer.json, for tests.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/json.h"
#include "perform/text/byte_pairs.h"

namespace tombolo::test {

using Pairs = std::vector<std::pair<std::string, std::string>>;

// The first merges of GPT-2, in order: ids 256 to 290 ("Ġ" stands for a space).
inline Pairs gpt2_merges() {
  return {{"Ġ", "t"},   {"Ġ", "a"},  {"h", "e"}, {"i", "n"}, {"r", "e"},  {"o", "n"},
          {"Ġt", "he"}, {"e", "r"},  {"Ġ", "s"}, {"a", "t"}, {"Ġ", "w"},  {"Ġ", "o"},
          {"e", "n"},   {"Ġ", "c"},  {"i", "t"}, {"i", "s"}, {"a", "n"},  {"o", "r"},
          {"e", "s"},   {"Ġ", "b"},  {"e", "d"}, {"Ġ", "f"}, {"in", "g"}, {"Ġ", "p"},
          {"o", "u"},   {"Ġa", "n"}, {"a", "l"}, {"a", "r"}, {"Ġt", "o"}, {"Ġ", "m"},
          {"Ġo", "f"},  {"Ġ", "in"}, {"Ġ", "d"}, {"Ġ", "h"}, {"Ġan", "d"}};
}

// All bytes in the order of GPT-2, those that stand for themselves first, then what the pairs make.
inline Value model_table(const Pairs& merges) {
  Value::Table vocabulary;
  for (const bool own : {true, false}) {
    for (int byte = 0; byte < 256; ++byte) {
      const bool printable =
          (byte >= '!' && byte <= '~') || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
      if (printable != own) continue;
      const auto letter = static_cast<char>(byte);
      vocabulary.emplace_back(text::spelt({&letter, 1}), std::ssize(vocabulary));
    }
  }
  Value::Array list;
  for (const auto& [left, right] : merges) {
    vocabulary.emplace_back(left + right, std::ssize(vocabulary));
    list.push_back(left + " " + right);
  }
  return Value::Table{{"type", "BPE"}, {"vocab", std::move(vocabulary)}, {"merges", list}};
}

inline Value byte_level(bool use_regex = true, bool prefix_space = false) {
  return Value::Table{{"type", "ByteLevel"},
                      {"add_prefix_space", prefix_space},
                      {"trim_offsets", true},
                      {"use_regex", use_regex}};
}

// As GPT-2's, with an end of text behind all words. `changes` replaces or adds keys.
inline std::string tokenizer_json(const Pairs& merges, const Value::Table& changes = {}) {
  const int64_t end = 256 + std::ssize(merges);
  const Value token(Value::Table{{"id", end},
                                 {"content", "<|endoftext|>"},
                                 {"single_word", false},
                                 {"lstrip", false},
                                 {"rstrip", false},
                                 {"normalized", false},
                                 {"special", true}});
  Value file(Value::Table{{"version", "1.0"},
                          {"added_tokens", Value::Array{token}},
                          {"normalizer", Value()},
                          {"pre_tokenizer", byte_level()},
                          {"model", model_table(merges)}});
  for (const auto& [key, value] : changes) file.set(key, value);
  return to_json(file);
}

}  // namespace tombolo::test
