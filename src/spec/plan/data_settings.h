// [data] of a job: what is trained on.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/fields.h"

namespace tombolo::plan {

// Who wrote a token file, and so how it is read (perform/data/token_file.h).
enum class TokenFormat {
  kMegatron,  // NAME.bin and NAME.idx, as Megatron-LM and `tombolo tokenize` write them
  kNanogpt,   // NAME.bin alone: token ids and nothing else
};
constexpr auto enum_names(TokenFormat) {
  return std::to_array<EnumName<TokenFormat>>(
      {{TokenFormat::kMegatron, "megatron"}, {TokenFormat::kNanogpt, "nanogpt"}});
}

// How a token id stands in a file, little-endian.
enum class TokenType { kUint8, kInt16, kUint16, kInt32, kUint32, kInt64 };
constexpr auto enum_names(TokenType) {
  return std::to_array<EnumName<TokenType>>({{TokenType::kUint8, "uint8"},
                                             {TokenType::kInt16, "int16"},
                                             {TokenType::kUint16, "uint16"},
                                             {TokenType::kInt32, "int32"},
                                             {TokenType::kUint32, "uint32"},
                                             {TokenType::kInt64, "int64"}});
}

// [[data.share]]: files of token ids that only some pipelines read, because they may not leave
// where they lie, or would take too long to (data_shares.h).
struct DataShare {
  std::vector<std::string> tokens;       // as in Data
  std::vector<std::string> datacenters;  // that have these files; left out: any
  // That read these files; left out: those not named elsewhere, whose first and last stage lie in
  // `datacenters`.
  std::vector<int64_t> pipelines;

  bool operator==(const DataShare&) const = default;
};

// What is trained on: one text, whose bytes are the tokens, or files of token ids, for all
// pipelines or in shares.
struct Data {
  std::string text;                   // path of a file, read as bytes
  std::vector<std::string> tokens;    // paths of .bin files, in this order
  std::vector<DataShare> share;       // instead of tokens
  std::optional<TokenFormat> format;  // left out: megatron if the .bin has a .idx
  std::optional<TokenType> dtype;     // left out: what the .idx says, and uint16 of nanogpt
  std::optional<bool> shuffle;        // of tokens; left out: yes
  std::optional<uint64_t> seed;       // of the order; left out: that of [run]
  double evaluation_fraction = 0.1;   // of the text or the samples, from their end, held out

  bool of_tokens() const { return !tokens.empty() || !share.empty(); }
  bool operator==(const Data&) const = default;
};

// Hands every path of [data] to `change` and keeps what it returns.
template <class Change>
void change_paths(Data& data, Change change) {
  if (!data.text.empty()) data.text = change(data.text);
  for (std::string& path : data.tokens) path = change(path);
  for (DataShare& share : data.share) {
    for (std::string& path : share.tokens) path = change(path);
  }
}

template <class Archive>
void check_token_paths(Archive& a, const std::vector<std::string>& tokens) {
  bool named = !tokens.empty();
  for (const std::string& path : tokens) named = named && !path.empty();
  a.check(named, "tokens", "wanted one or more paths", "[\"corpus.bin\"]");
}

template <class T>
bool all_differ(std::vector<T> list) {
  std::sort(list.begin(), list.end());
  return std::adjacent_find(list.begin(), list.end()) == list.end();
}

template <class Archive>
void describe(Archive& a, DataShare& share) {
  a.required("tokens", share.tokens, "paths of .bin files, in this order");
  a.optional("datacenters", share.datacenters, "that have these files; left out: any");
  a.optional("pipelines", share.pipelines,
             "that read these files, from 0; left out: those not named elsewhere whose first and "
             "last stage are in these datacenters");
  check_token_paths(a, share.tokens);
  a.check(!share.datacenters.empty() || !share.pipelines.empty(), "datacenters",
          "is left out, and pipelines too: no rank would read these files",
          "datacenters = [\"oslo\"], or pipelines = [0]");
  a.check(all_differ(share.datacenters), "datacenters", "names a datacenter twice");
  a.check(all_differ(share.pipelines), "pipelines", "names a pipeline twice");
  bool counted = true;
  for (const int64_t pipeline : share.pipelines) counted = counted && pipeline >= 0;
  a.check(counted, "pipelines", "wanted numbers from 0 to parallelism.data - 1");
}

// The first pipeline or datacenter that two shares name, which leaves open who reads what; empty:
// none.
inline std::string said_by_two(const std::vector<DataShare>& shares) {
  std::vector<std::string> pipelines, datacenters;
  for (const DataShare& share : shares) {
    for (const int64_t each : share.pipelines)
      pipelines.push_back(fmt::format("pipeline {}", each));
    if (!share.pipelines.empty()) continue;
    for (const std::string& each : share.datacenters)
      datacenters.push_back(fmt::format("\"{}\"", each));
  }
  for (std::vector<std::string>* said : {&pipelines, &datacenters}) {
    std::sort(said->begin(), said->end());
    const auto twice = std::adjacent_find(said->begin(), said->end());
    if (twice != said->end()) return *twice;
  }
  return {};
}

template <class Archive>
void describe(Archive& a, Data& data) {
  if (!a.has("tokens") && !a.has("share")) {
    a.required("text", data.text, "path of a file whose bytes are the tokens");
  } else {
    a.optional("text", data.text, "path of a file whose bytes are the tokens");
  }
  a.optional("tokens", data.tokens, "paths of .bin files of token ids, in this order");
  a.optional("share", data.share, "files that only some pipelines read, instead of tokens");
  a.optional("format", data.format, "left out: megatron where a .idx is next to the .bin");
  a.optional("dtype", data.dtype,
             "of a token id; left out: what the .idx says, and uint16 of nanogpt");
  a.optional("shuffle", data.shuffle,
             "whether the order of token samples is drawn; left out: true");
  a.optional("seed", data.seed, "of that order; left out: that of [run]");
  a.optional("evaluation_fraction", data.evaluation_fraction,
             "of the text or the samples, from their end, held out");
  if (a.has("tokens")) check_token_paths(a, data.tokens);
  a.check(!a.has("share") || !data.share.empty(), "share", "is an empty list",
          "[[data.share]] with tokens and datacenters, or leave it out");
  a.check(data.of_tokens() || !data.text.empty(), "text", "is empty", "\"corpus.txt\"");
  a.check(data.text.empty() || data.tokens.empty(), "tokens", "cannot be combined with a text",
          "one of text and tokens");
  a.check(data.share.empty() || (data.text.empty() && data.tokens.empty()), "share",
          data.text.empty() ? "cannot be combined with tokens" : "cannot be combined with a text",
          "one of text, tokens and share; files for all pipelines go into every share");
  const std::string twice = said_by_two(data.share);
  a.check(twice.empty(), "share", twice + " stands in two shares",
          "both shares' files in one, or pipelines in each share, which says who reads it");
  const std::pair<const char*, bool> words[] = {{"format", data.format.has_value()},
                                                {"dtype", data.dtype.has_value()},
                                                {"shuffle", data.shuffle.has_value()},
                                                {"seed", data.seed.has_value()}};
  for (const auto& [key, said] : words) {
    a.check(!said || data.of_tokens(), key, "goes with tokens; a text is drawn from at random",
            "tokens = [\"corpus.bin\"], or leave it out");
  }
  a.check(data.evaluation_fraction >= 0 && data.evaluation_fraction < 1, "evaluation_fraction",
          "must lie in [0, 1)");
}

}  // namespace tombolo::plan
