#include <algorithm>

#include "base/file.h"
#include "model/config_json.h"
#include "model/model.h"

namespace tombolo::model {
namespace {

Model gpt(std::string name, int64_t layers, int64_t hidden, int64_t heads, int64_t sequence = 2048,
          int64_t vocabulary = 51200) {
  Model m;
  m.name = std::move(name);
  m.layers = layers;
  m.hidden = hidden;
  m.heads = m.kv_heads = heads;
  m.ffn = 4 * hidden;
  m.vocabulary = vocabulary;
  m.sequence = sequence;
  m.norm = Norm::kLayer;
  m.activation = Activation::kGelu;
  m.positions = Positions::kLearned;
  m.bias = true;
  m.tied_embeddings = true;
  return m;
}

Model llama(std::string name, int64_t layers, int64_t hidden, int64_t heads, int64_t kv_heads,
            int64_t ffn, int64_t vocabulary, int64_t sequence) {
  Model m;
  m.name = std::move(name);
  m.layers = layers;
  m.hidden = hidden;
  m.heads = heads;
  m.kv_heads = kv_heads;
  m.ffn = ffn;
  m.vocabulary = vocabulary;
  m.sequence = sequence;
  return m;
}

std::vector<Model> presets() {
  return {
      // Korthikanti et al. 2022, table 3; vocabulary 51,200 and sequence 2,048 throughout.
      gpt("gpt-22b", 48, 6144, 64),
      gpt("gpt3-175b", 96, 12288, 96),
      gpt("gpt-530b", 105, 20480, 128),
      gpt("gpt-1t", 128, 25600, 160),
      // Radford et al. 2019; the published vocabulary, not padded.
      gpt("gpt2", 12, 768, 12, 1024, 50257),
      // Llama Team 2024, table 3.
      [] {
        Model m = llama("llama3-8b", 32, 4096, 32, 8, 14336, 128256, 8192);
        m.rope_theta = 500000;
        return m;
      }(),
      [] {
        Model m = llama("llama3-70b", 80, 8192, 64, 8, 28672, 128256, 8192);
        m.rope_theta = 500000;
        return m;
      }(),
      // Ours, for text as bytes on small machines: 3.3 M parameters.
      llama("byte-3m", 4, 256, 8, 4, 704, 256, 256),
  };
}

// The fields that may stand beside `preset`.
struct Overrides {
  Model model;
};

template <class Archive>
void describe(Archive& a, Overrides& o) {
  Model& m = o.model;
  std::string preset;
  a.optional("preset", preset);
  std::string config;
  a.optional("config", config);
  a.check(preset.empty() || config.empty(), "config", "cannot stand beside preset",
          "one of the two");
  a.refuse("experts", "mixture-of-experts models are not supported yet", "a dense model");
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
  a.optional("head_dim", m.head_dim);
  a.optional("qkv_bias", m.qkv_bias);
  a.optional("output_bias", m.output_bias);
  a.optional("mlp_bias", m.mlp_bias);
  a.optional("positions_max", m.positions_max);
  a.optional("parallel_residual", m.parallel_residual);
}

}  // namespace

std::vector<std::string> preset_names() {
  std::vector<std::string> names;
  for (const Model& m : presets()) names.push_back(m.name);
  return names;
}

Result<Model> preset(const std::string& name) {
  std::string all;
  for (Model& m : presets()) {
    if (m.name == name) return std::move(m);
    all += (all.empty() ? "" : ", ") + m.name;
  }
  return unusable(fmt::format("there is no preset \"{}\"", name), "one of " + all);
}

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
                      "sequence = 2048 beside it");
    }
  }
  const bool has_base = preset_value || config_value;

  // Lay the overrides over the base as Values, so that "given or not" needs no second bookkeeping.
  Value merged = has_base ? write_fields(section.model) : Value(Value::Table{});
  merged.line = table.line;
  for (const auto& [key, value] : *table.get<Value::Table>()) {
    if (key != "preset" && key != "config") merged.set(key, value);
  }
  // A changed width changes what was derived from it, unless that was given too.
  if (has_base && table.find("hidden") && !table.find("ffn")) merged.set("ffn", int64_t{0});
  if (has_base && table.find("heads") && !table.find("kv_heads")) {
    merged.set("kv_heads", int64_t{0});
  }
  if (!merged.find("vocabulary")) merged.set("vocabulary", int64_t{256});  // byte tokens
  Model m = TRY(read_fields<Model>(merged, file, path));
  if (m.kv_heads == 0) m.kv_heads = m.heads;
  if (m.ffn == 0 && m.activation == Activation::kGelu) m.ffn = 4 * m.hidden;
  if (m.ffn == 0) m.ffn = (8 * m.hidden / 3 + 31) / 32 * 32;
  section.model = m;
  return section;
}

}  // namespace tombolo::model
