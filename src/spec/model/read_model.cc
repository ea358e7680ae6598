// [model] of a job file: a preset or a config.json, and what the file says on top of it.
#include "base/field_catalog.h"
#include "base/file.h"
#include "spec/model/config_json.h"
#include "spec/model/model.h"

namespace tombolo::model {
namespace {

// The fields that may be given with `preset`.
struct Overrides {
  Model model;
  Value experts, latent_attention,
      linear_attention;  // fields of these may be left out where the base has them
};

template <class Archive>
void describe(Archive& a, Overrides& o) {
  Model& m = o.model;
  std::string preset;
  a.optional("preset", preset,
             "a model known by name, such as \"llama3-8b\"; the keys below change it");
  std::string config;
  a.optional("config", config,
             "path of a Hugging Face config.json, instead of a preset; the keys below change it");
  a.check(preset.empty() || config.empty(), "config", "cannot be combined with preset",
          "one of the two");
  a.optional("name", m.name);
  a.optional("layers", m.layers);
  a.optional("hidden", m.hidden);
  a.optional("heads", m.heads);
  a.optional("kv_heads", m.kv_heads);
  a.optional("ffn", m.ffn);
  a.optional("vocabulary", m.vocabulary);
  a.optional("sequence", m.sequence);
  a.optional("norm", m.norm);
  a.optional("activation", m.activation);
  a.optional("positions", m.positions);
  a.optional("bias", m.bias);
  a.optional("tied_embeddings", m.tied_embeddings);
  a.optional("rope_theta", m.rope_theta);
  a.optional("norm_epsilon", m.norm_epsilon);
  a.optional("rope_scaling", m.rope_scaling);
  a.optional("head_dim", m.head_dim);
  a.optional("qkv_bias", m.qkv_bias);
  a.optional("output_bias", m.output_bias);
  a.optional("mlp_bias", m.mlp_bias);
  a.optional("norm_bias", m.norm_bias);
  a.optional("positions_max", m.positions_max);
  a.optional("parallel_residual", m.parallel_residual);
  a.optional("qk_norm", m.qk_norm);
  a.optional("attention_sinks", m.attention_sinks);
  a.optional("output_norms", m.output_norms);
  a.optional("input_norms", m.input_norms);
  a.optional("shared_norm", m.shared_norm);
  a.optional("whole_qk_norm", m.whole_qk_norm);
  a.optional("attention_gate", m.attention_gate);
  a.optional("head_bias", m.head_bias);
  a.optional("nope_interval", m.nope_interval);
  a.optional("rotary_share", m.rotary_share);
  a.optional("unit_offset_norms", m.unit_offset_norms);
  a.optional("scaled_embedding", m.scaled_embedding);
  a.optional("query_scalar", m.query_scalar);
  a.optional("attention_softcap", m.attention_softcap);
  a.optional("logit_softcap", m.logit_softcap);
  a.optional("attention_window", m.attention_window);
  a.optional("global_interval", m.global_interval);
  a.optional("window_rope_theta", m.window_rope_theta);
  a.optional("embedding_norm", m.embedding_norm);
  a.optional("experts", o.experts);
  a.optional("latent_attention", o.latent_attention);
  a.optional("linear_attention", o.linear_attention);
  a.optional("multi_token_layers", m.multi_token_layers);
}

// Lays `over` upon the table `base`, field by field.
Value overlaid(Value base, const Value& over) {
  base.line = over.line;
  for (const auto& [key, value] : *over.get<Value::Table>()) base.set(key, value);
  return base;
}

// What a file may leave out.
void resolve(Model& m) {
  if (m.kv_heads == 0) m.kv_heads = m.heads;
  if (m.ffn == 0 && !m.gated_mlp()) m.ffn = 4 * m.hidden;
  if (m.ffn == 0) m.ffn = (8 * m.hidden / 3 + 31) / 32 * 32;
  if (m.experts && m.experts->ffn == 0) m.experts->ffn = m.ffn;
}

}  // namespace

Result<ModelSection> read_model(const Value& table, const std::string& file,
                                const std::string& path) {
  // The preset or the config.json first, then what the table says on top of it, then the same
  // checks for all.
  TRY(read_fields<Overrides>(table, file, path));  // refuses unknown keys by name
  const Value* preset_value = table.find("preset");
  const Value* config_value = table.find("config");
  ModelSection section;
  if (preset_value) {
    Result<Model> found = preset(*preset_value->get<std::string>());
    if (!found) {
      found.error().message = fmt::format("{}:{}: {}.preset: {}", file, preset_value->line, path,
                                          found.error().message);
      return fail(found.error());
    }
    section.model = *found;
  } else if (config_value) {
    const std::string& name = *config_value->get<std::string>();
    section = TRY(during(read_config_json(sibling_path(file, name)),
                         fmt::format("reading {}.config = \"{}\" of {}", path, name, file)));
    if (section.model.sequence == 0 && !table.find("sequence")) {
      return unusable(fmt::format("{}:{}: {}.config = \"{}\": says nothing of a sequence, as "
                                  "max_position_embeddings would",
                                  file, config_value->line, path, name),
                      "sequence = 2048 with it");
    }
    if (!table.find("sequence")) {
      section.notes.push_back(
          fmt::format("{}.sequence is left out: {} tokens, the most that {} allows", path,
                      section.model.sequence, name));
    }
  }
  const bool has_base = preset_value || config_value;

  // Lay the overrides over the base as Values, so that "given or not" needs no second bookkeeping.
  Value merged = has_base ? write_fields(section.model) : Value(Value::Table{});
  merged.line = table.line;
  for (const auto& [key, value] : *table.get<Value::Table>()) {
    if (key == "preset" || key == "config") continue;
    const Value* base = merged.find(key);
    const bool tables = base && base->get<Value::Table>() && value.get<Value::Table>();
    merged.set(key, tables ? overlaid(*base, value) : value);
  }
  // A changed width changes what was derived from it, unless that was given too.
  if (has_base && table.find("hidden") && !table.find("ffn")) merged.set("ffn", int64_t{0});
  if (has_base && table.find("heads") && !table.find("kv_heads")) {
    merged.set("kv_heads", int64_t{0});
  }
  if (!merged.find("vocabulary")) merged.set("vocabulary", int64_t{256});  // byte tokens
  Model m = TRY(read_fields<Model>(merged, file, path));
  resolve(m);
  section.model = m;
  return section;
}

std::vector<KeyEntry> model_keys() {
  std::vector<KeyEntry> keys;
  for (KeyEntry& key : keys_of<Overrides>()) {
    if (key.name() == "preset" || key.name() == "config") keys.push_back(std::move(key));
  }
  for (KeyEntry& key : keys_of<Model>()) {
    const bool of_model = key.table().empty();
    if (of_model && key.required && key.name() != "vocabulary") {
      key.text += "; needed without preset or config";
    }
    key.required = key.required && !of_model;
    keys.push_back(std::move(key));
  }
  return keys;
}

}  // namespace tombolo::model
