// Which tokens begin a prompt and end an answer, as config.json and generation_config.json say. Pure.
#pragma once

#include <cstdint>
#include <vector>

#include "perform/weights/config_text.h"

namespace tombolo::weights {

struct TextEnds {
  // bos_token_id of Llama, Mistral and Gemma, whose models of SentencePiece put it before every text. Of
  // GPT-2 and Qwen nothing, whatever their config.json says. A tokenizer.json knows better
  // (text::TextEncoder::around).
  std::vector<int64_t> begin;
  std::vector<int64_t> end;  // eos_token_id of both files: a number or a list

  bool operator==(const TextEnds&) const = default;
};

// `generation`: null where there is no such file. Unusable for ids outside the vocabulary.
Result<TextEnds> text_ends(const Config& config, const Value& generation);

}  // namespace tombolo::weights
