// Hugging Face's config.json as a Model: decoders, dense or with experts, to the last parameter.
//
// Families by model_type:
//   llama, mistral, qwen2, qwen3     RMSNorm, gated MLP, rotary positions, grouped queries
//   mixtral, qwen2_moe, qwen3_moe,
//   gpt_oss, grok-1                  the same with experts
//   deepseek_v2, deepseek_v3         the same with experts and latent attention
//   qwen3_next                       the same with experts and linear attention
//   glm4_moe, llama4_text            the same with experts, in all but some layers
//   phi3, olmo2, smollm3             as llama, with other norms or positions
//   gemma, gemma2, gemma3_text       the same with GELU in the gate
//   gemma3, llama4                   that see, too: the decoder in text_config
//   nemotron                         LayerNorm, squared ReLU, rotary positions, grouped queries
//   gpt2, gpt_neox, phi, mpt         LayerNorm, GELU
// Another model_type is refused by name. Without one the names of the fields tell GPT-2 and MPT
// from Llama, and a note says so.
//
// A field that we do not know is left out and named in the notes; a field that we know and no law
// counts (attention_chunk_size) is named with what that means; what cannot change a count or a time
// (dropout, token ids) passes silently. A file that contradicts itself is refused: heads that do
// not divide the hidden size, more experts per token than there are, two lengths. So is what cannot
// be counted, such as experts in layers at uneven distances.
//
// Field by field: docs/guide/models.md. Source: the configuration classes of Hugging Face Transformers
// 4.57 (of MPT: MosaicML's llm-foundry), whose defaults hold where a file leaves a field out.
#pragma once

#include <string>
#include <string_view>

#include "spec/model/model.h"

namespace tombolo::model {

// `file` is its name in messages. Without max_position_embeddings the sequence stays 0.
Result<ModelSection> parse_config_json(std::string_view text, const std::string& file);
Result<ModelSection> read_config_json(const std::string& path);

}  // namespace tombolo::model
