#include "spec/model/config_json.h"

#include <algorithm>
#include <filesystem>

#include "base/file.h"
#include "base/json.h"
#include "spec/model/config_fields.h"

namespace tombolo::model {
namespace {

using detail::Config;

// Neither a count nor a time depends on these.
constexpr const char* kNoBearing[] = {"architectures",
                                      "_name_or_path",
                                      "transformers_version",
                                      "torch_dtype",
                                      "dtype",
                                      "auto_map",
                                      "bos_token_id",
                                      "eos_token_id",
                                      "pad_token_id",
                                      "sep_token_id",
                                      "unk_token_id",
                                      "decoder_start_token_id",
                                      "use_cache",
                                      "initializer_range",
                                      "gradient_checkpointing",
                                      "attention_dropout",
                                      "hidden_dropout",
                                      "attn_pdrop",
                                      "embd_pdrop",
                                      "resid_pdrop",
                                      "classifier_dropout",
                                      "summary_activation",
                                      "summary_first_dropout",
                                      "summary_proj_to_labels",
                                      "summary_type",
                                      "summary_use_proj",
                                      "task_specific_params",
                                      "pretraining_tp",
                                      "id2label",
                                      "label2id",
                                      "is_decoder",
                                      "output_past",
                                      "scale_attn_weights",
                                      "scale_attn_by_inverse_layer_idx",
                                      "reorder_and_upcast_attn",
                                      "rotary_pct",
                                      "rotary_emb_base",
                                      "partial_rotary_factor",
                                      "rope_scaling",
                                      "max_window_layers",
                                      "rope_parameters",
                                      "rope_interleave",
                                      "routed_scaling_factor",
                                      "scoring_func",
                                      "topk_group",
                                      "n_group",
                                      "norm_topk_prob",
                                      "aux_loss_alpha",
                                      "seq_aux",
                                      "ep_size",
                                      "router_aux_loss_coef",
                                      "output_router_logits",
                                      "router_jitter_noise",
                                      "swiglu_limit",
                                      "swiglu_alpha",
                                      "initial_context_length",
                                      "embedding_multiplier_scale",
                                      "output_multiplier_scale",
                                      "attn_output_multiplier",
                                      "emb_pdrop",
                                      "embedding_fraction",
                                      "init_config",
                                      "init_device",
                                      "logit_scale",
                                      "hidden_activation",
                                      "query_pre_attn_scalar",
                                      "attn_logit_softcapping",
                                      "final_logit_softcapping",
                                      "cache_implementation",
                                      "sliding_window_pattern",
                                      "_sliding_window_pattern",
                                      "rope_local_base_freq",
                                      "use_bidirectional_attention",
                                      "original_max_position_embeddings",
                                      "use_qk_norm",
                                      "attn_temperature_tuning",
                                      "attn_scale",
                                      "floor_scale",
                                      "for_llm_compressor",
                                      "boi_token_index",
                                      "eoi_token_index",
                                      "image_token_index",
                                      "mm_tokens_per_image",
                                      "verbose"};

struct Family {
  const char* model_type;
  std::string_view architecture;  // how the names of its classes begin
};
constexpr Family kFamilies[] = {{"llama", "Llama"},
                                {"mistral", "Mistral"},
                                {"mixtral", "Mixtral"},
                                {"qwen2", "Qwen2"},
                                {"qwen2_moe", "Qwen2Moe"},
                                {"qwen3", "Qwen3"},
                                {"qwen3_moe", "Qwen3Moe"},
                                {"deepseek_v2", "DeepseekV2"},
                                {"deepseek_v3", "DeepseekV3"},
                                {"gpt_oss", "GptOss"},
                                {"grok-1", "Grok1Model"},
                                {"nemotron", "Nemotron"},
                                {"gemma", "Gemma"},
                                {"gemma2", "Gemma2"},
                                {"gemma3", "Gemma3"},
                                {"gemma3_text", "Gemma3"},
                                {"phi3", "Phi3"},
                                {"qwen3_next", "Qwen3Next"},
                                {"glm4_moe", "Glm4Moe"},
                                {"llama4", "Llama4"},
                                {"llama4_text", "Llama4"},
                                {"olmo2", "Olmo2"},
                                {"smollm3", "SmolLM3"},
                                {"gpt2", "GPT2"},
                                {"gpt_neox", "GPTNeoX"},
                                {"phi", "Phi"},
                                {"mpt", "MPT"}};

// Which family: by model_type, else by the names of the fields.
std::string family_of(Config& c) {
  const std::string type = c.text("model_type");
  if (type.empty()) {
    const std::string guess = c.has("n_embd") ? "gpt2" : c.has("d_model") ? "mpt" : "llama";
    c.note("no model_type: read as " + guess);
    return guess;
  }
  std::string names;
  const Family* found = nullptr;
  for (const Family& family : kFamilies) {
    names += fmt::format("{}{}", names.empty() ? "" : ", ", family.model_type);
    if (type == family.model_type) found = &family;
  }
  if (!found) {
    c.refuse("model_type", "a family that we cannot count",
             fmt::format("one of {}, or the numbers inline in [model]", names));
    return "";
  }
  // "LlamaForCausalLM" in a file of model_type gpt2.
  const Value* list = c.take("architectures");
  const Value::Array* architectures = list ? list->get<Value::Array>() : nullptr;
  const std::string* name = architectures && !architectures->empty()
                                ? architectures->front().get<std::string>()
                                : nullptr;
  for (const Family& family : kFamilies) {
    if (family.architecture == found->architecture) continue;
    if (name && name->starts_with(std::string(family.architecture) + "For")) {
      c.refuse("model_type", fmt::format("contradicts architectures = [\"{}\"]", *name));
    }
  }
  return type;
}

void refuse_what_is_no_decoder(Config& c) {
  for (const char* key : {"is_encoder_decoder", "add_cross_attention"}) {
    if (c.flag(key, false)) c.refuse(key, "only decoders can be counted");
  }
}

void check_layer_types(Config& c, int64_t layers) {
  const Value* types = c.take("layer_types");
  const Value::Array* list = types ? types->get<Value::Array>() : nullptr;
  if (types && (!list || static_cast<int64_t>(list->size()) != layers)) {
    c.refuse("layer_types", fmt::format("wanted one entry for each of {} layers", layers));
  }
}

Model read_decoder(Config& c, const std::string& family) {
  Model m;
  if (family == "gpt2") {
    m = detail::read_gpt2(c);
  } else if (family == "gpt_neox") {
    m = detail::read_gpt_neox(c);
  } else if (family == "phi") {
    m = detail::read_phi(c);
  } else if (family == "mpt") {
    m = detail::read_mpt(c);
  } else {
    m = detail::read_llama_like(c, family);
  }
  check_layer_types(c, m.layers);
  for (const char* key : kNoBearing) c.take(key);
  return m;
}

// A model that sees images, too: its decoder stands in a table of its own.
Model read_decoder_within(Config& c, const std::string& family) {
  const Value* text = c.take("text_config");
  const Value::Table* table = text ? text->get<Value::Table>() : nullptr;
  if (!table) {
    if (!text) c.missing("text_config");
    if (text) c.refuse("text_config", "wanted a table");
    return {};
  }
  Config inner(*table, c.file() + ": text_config");
  inner.take("model_type");
  Model m = read_decoder(inner, family + "_text");
  c.absorb(std::move(inner));
  m.tied_embeddings = c.flag("tie_word_embeddings", m.tied_embeddings);
  if (c.has("vision_config")) {
    c.note("vision_config is ignored: the decoder of text is counted alone");
  }
  for (const char* key : kNoBearing) c.take(key);
  return m;
}

}  // namespace

Result<ModelSection> parse_config_json(std::string_view text, const std::string& file) {
  const Value value = TRY(parse_json(text, file));
  const Value::Table* table = value.get<Value::Table>();
  if (!table) return unusable(fmt::format("{}: wanted a table, found {}", file, value.kind()));
  Config c(*table, file);
  const std::string family = family_of(c);
  if (c.error()) return fail(*c.error());
  refuse_what_is_no_decoder(c);
  ModelSection section;
  Model& m = section.model;
  const bool sees = family == "gemma3" || family == "llama4";
  m = sees ? read_decoder_within(c, family) : read_decoder(c, family);
  if (c.has("quantization_config")) {
    c.note("quantization_config is ignored: the precision is that of the job");
  }
  if (!(m.norm_epsilon > 0) || !(m.rope_theta > 0)) {
    return unusable(
        fmt::format("{}: the epsilon of the norms and the base of the rotations must "
                    "be positive",
                    file));
  }
  m.name = std::filesystem::path(c.text("_name_or_path")).filename().string();
  if (m.name.empty()) m.name = family;
  if (c.error()) return fail(*c.error());
  // What [model] would refuse is refused here already; the sequence may come from there.
  Model checked = m;
  checked.sequence = std::max<int64_t>(m.sequence, 1);
  TRY(read_fields<Model>(write_fields(checked), file));
  section.notes = c.finish();
  return section;
}

Result<ModelSection> read_config_json(const std::string& path) {
  const std::string text = TRY(read_file(path, 1 << 20));
  return parse_config_json(text, path);
}

}  // namespace tombolo::model
