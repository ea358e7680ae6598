// Hugging Face's config.json as a Model: dense decoders, counted to the last parameter.
//
// Families by model_type: llama, mistral, qwen2 (RMSNorm, gated MLP, rotary positions, grouped
// queries; qwen2 with biases in query, key and value), gpt2, gpt_neox. Another model_type is
// refused by name, and so is a mixture of experts: its parameters would be counted wrong. Without a
// model_type the names of the fields tell GPT-2 from Llama, and a note says so.
//
// A field that we do not know is left out and named in the notes; a field that we know and no law
// counts (sliding_window) is named with what that means; what cannot change a count or a time
// (dropout, token ids) passes silently. A file that contradicts itself is refused: heads that do
// not divide the hidden size, key and value heads that do not divide the heads, two lengths.
//
// Field by field: docs/models.md. Source: the configuration classes of Hugging Face Transformers
// 4.46, whose defaults hold where a file leaves a field out.
#pragma once

#include <string>
#include <string_view>

#include "model/model.h"

namespace tombolo::model {

// `file` is its name in messages. Without max_position_embeddings the sequence stays 0.
Result<ModelSection> parse_config_json(std::string_view text, const std::string& file);
Result<ModelSection> read_config_json(const std::string& path);

}  // namespace tombolo::model
