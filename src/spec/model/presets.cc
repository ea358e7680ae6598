// Models known by name. Each comes with where its shape was read; sequence lengths are those of the
// pre-training, which a job may override.
#include <algorithm>
#include <cctype>
#include <map>
#include <string_view>

#include "spec/model/model.h"

namespace tombolo::model {
namespace {

struct Shape {
  int64_t layers, hidden, heads;
};

Model sized(std::string name, const Shape& shape) {
  Model m;
  m.name = std::move(name);
  m.layers = shape.layers;
  m.hidden = shape.hidden;
  m.heads = m.kv_heads = shape.heads;
  return m;
}

Model gpt(std::string name, const Shape& shape, int64_t sequence = 2048,
          int64_t vocabulary = 51200) {
  Model m = sized(std::move(name), shape);
  m.ffn = 4 * m.hidden;
  m.vocabulary = vocabulary;
  m.sequence = sequence;
  m.norm = Norm::kLayer;
  m.activation = Activation::kGelu;
  m.positions = Positions::kLearned;
  m.bias = true;
  m.tied_embeddings = true;
  return m;
}

struct LlamaShape {
  int64_t kv_heads, ffn, vocabulary, sequence;
  double rope_theta = 10000;
  double norm_epsilon = 1e-5;
};

Model llama(std::string name, const Shape& shape, const LlamaShape& more) {
  Model m = sized(std::move(name), shape);
  m.kv_heads = more.kv_heads;
  m.ffn = more.ffn;
  m.vocabulary = more.vocabulary;
  m.sequence = more.sequence;
  m.rope_theta = more.rope_theta;
  m.norm_epsilon = more.norm_epsilon;
  return m;
}

Model mpt(const std::string& size, const Shape& shape) {
  return gpt("mpt-" + size, shape, 2048, 50368);
}

Model mixtral(std::string name, const Shape& shape, const LlamaShape& more) {
  Model m = llama(std::move(name), shape, more);
  m.experts = Experts{.count = 8, .per_token = 2, .ffn = m.ffn};
  return m;
}

Model qwen3_moe(std::string name, const Shape& shape, const LlamaShape& more, int64_t expert) {
  Model m = llama(std::move(name), shape, more);
  m.head_dim = 128;
  m.qk_norm = true;
  m.experts = Experts{.count = 128, .per_token = 8, .ffn = expert};
  return m;
}

// LayerNorms and biases in attention; the head's bias, 32,064 numbers, is left out.
Model phi_moe(std::string name, int64_t layers) {
  Model m = llama(std::move(name), {layers, 4096, 32}, {8, 6400, 32064, 4096});
  m.norm = Norm::kLayer;
  m.qkv_bias = m.output_bias = true;
  m.experts = Experts{.count = 16, .per_token = 2, .ffn = 6400};
  return m;
}

Model deepseek(std::string name, const Shape& shape, const LlamaShape& more, Experts experts) {
  Model m = llama(std::move(name), shape, more);
  m.latent_attention = LatentAttention{.query_rank = 1536};
  m.experts = experts;
  return m;
}

Model nemotron(std::string name, const Shape& shape, int64_t ffn) {
  Model m = llama(std::move(name), shape, {8, ffn, 256000, 4096});
  m.norm = Norm::kLayer;
  m.activation = Activation::kSquaredRelu;
  m.rotary_share = 0.5;
  return m;
}

Model bloom() {
  Model m = gpt("bloom-176b", {70, 14336, 112}, 2048, 250880);
  m.positions = Positions::kAlibi;
  m.embedding_norm = true;
  return m;
}

// Gated experts with GELU, which has as many matrices as SiLU; four norms per layer.
Model grok() {
  Model m = llama("grok-1", {64, 6144, 48}, {8, 32768, 131072, 8192});
  m.tied_embeddings = true;
  m.output_norms = true;
  m.experts = Experts{.count = 8, .per_token = 2, .ffn = 32768};
  return m;
}

// Without its windows, of 128 tokens in every other layer: of the published runs, which we predict
// too fast as it is, none says that its kernels save them.
Model gpt_oss() {
  Model m = llama("gpt-oss-120b", {36, 2880, 64}, {8, 2880, 201088, 4096, 150000});
  m.head_dim = 64;
  m.qkv_bias = m.output_bias = true;
  m.attention_sinks = true;
  m.experts = Experts{.count = 128, .per_token = 4, .ffn = 2880, .bias = true};
  return m;
}

std::vector<Model> make_presets() {
  return {
      // Korthikanti et al. 2022, table 3; vocabulary 51,200 and sequence 2,048 throughout.
      gpt("gpt-22b", {48, 6144, 64}),
      gpt("gpt3-175b", {96, 12288, 96}),
      gpt("gpt-530b", {105, 20480, 128}),
      gpt("gpt-1t", {128, 25600, 160}),
      // Smith et al. 2022, Using DeepSpeed and Megatron to Train MT-NLG 530B, section 2.3; the
      // vocabulary padded as Megatron does.
      gpt("mt-nlg-530b", {105, 20480, 128}),
      // Radford et al. 2019; the published vocabulary, not padded.
      gpt("gpt2", {12, 768, 12}, 1024, 50257),
      // BigScience 2022, BLOOM, table 3.
      bloom(),
      // MosaicML, llm-foundry, scripts/train/yamls/pretrain/mpt-*.yaml: learned positions, biases
      // and tied embeddings, as its benchmarks ran. (The published mpt-7b has ALiBi and no bias.)
      mpt("125m", {12, 768, 12}),
      mpt("350m", {24, 1024, 16}),
      mpt("760m", {24, 1536, 12}),
      mpt("1b", {24, 2048, 16}),
      mpt("3b", {32, 2560, 20}),
      mpt("7b", {32, 4096, 32}),
      mpt("13b", {40, 5120, 40}),
      mpt("30b", {48, 7168, 56}),
      mpt("70b", {80, 8192, 64}),
      // Touvron et al. 2023, Llama 2; widths of the MLP from the published config.json.
      llama("llama2-7b", {32, 4096, 32}, {32, 11008, 32000, 4096}),
      llama("llama2-13b", {40, 5120, 40}, {40, 13824, 32000, 4096}),
      llama("llama2-70b", {80, 8192, 64}, {8, 28672, 32000, 4096}),
      // Llama Team 2024, table 3. Llama 3.1 is Llama 3 of the same size with longer contexts.
      llama("llama3-8b", {32, 4096, 32}, {8, 14336, 128256, 8192, 500000}),
      llama("llama3-70b", {80, 8192, 64}, {8, 28672, 128256, 8192, 500000}),
      llama("llama3.1-405b", {126, 16384, 128}, {8, 53248, 128256, 8192, 500000}),
      // Jiang et al. 2024, Mixtral of Experts, table 1; 8x22b from the published config.json.
      mixtral("mixtral-8x7b", {32, 4096, 32}, {8, 14336, 32000, 32768, 1e6}),
      mixtral("mixtral-8x22b", {56, 6144, 48}, {8, 16384, 32000, 65536, 1e6}),
      // Qwen Team 2025, Qwen3 Technical Report, table 2; widths from the published config.json.
      qwen3_moe("qwen3-30b-a3b", {48, 2048, 32}, {4, 6144, 151936, 4096, 1e6, 1e-6}, 768),
      qwen3_moe("qwen3-235b-a22b", {94, 4096, 64}, {4, 12288, 151936, 4096, 1e6, 1e-6}, 1536),
      // DeepSeek-AI 2024, DeepSeek-V2, section 3.1.2, and DeepSeek-V3, section 4.2. The latter
      // trained with one layer more, for the second token: multi_token_layers = 1.
      deepseek("deepseek-v2", {60, 5120, 128}, {128, 12288, 102400, 4096, 10000, 1e-6},
               {.count = 160, .per_token = 6, .ffn = 1536, .shared_ffn = 3072, .dense_layers = 1}),
      deepseek("deepseek-v3", {61, 7168, 128}, {128, 18432, 129280, 4096, 10000, 1e-6},
               {.count = 256,
                .per_token = 8,
                .ffn = 2048,
                .shared_ffn = 2048,
                .dense_layers = 3,
                .score_bias = true}),
      // OpenAI 2025, gpt-oss-120b & gpt-oss-20b Model Card, and the published config.json.
      gpt_oss(),
      // Abdin et al. 2024, Phi-3 Technical Report, and the published config.json.
      phi_moe("phi3.5-moe", 32),
      // xAI 2024, run.py and model.py of github.com/xai-org/grok-1.
      grok(),
      // Parmar et al. 2024, Nemotron-4 15B, table 1; NVIDIA 2024, Nemotron-4 340B, table 1.
      nemotron("nemotron4-15b", {32, 6144, 48}, 24576),
      nemotron("nemotron4-340b", {96, 18432, 96}, 73728),
      // Ours, for text as bytes on small machines: 3.3 M parameters.
      llama("byte-3m", {4, 256, 8}, {4, 704, 256, 256}),
  };
}

const std::vector<Model>& presets() {
  static const std::vector<Model> all = make_presets();
  return all;
}

// Other names that are in use, and what they mean.
constexpr std::pair<std::string_view, std::string_view> kAliases[] = {
    {"gpt-175b", "gpt3-175b"},
    {"bloom", "bloom-176b"},
    {"grok1-314b", "grok-1"},
    {"llama3-405b", "llama3.1-405b"},
    {"llama3.1-8b", "llama3-8b"},
    {"llama3.1-70b", "llama3-70b"},
    {"nemotron-340b", "nemotron4-340b"},
    {"phi-42b", "phi3.5-moe"},
    {"nemotron-15b", "nemotron4-15b"}};

// A name without what people write differently: case, and the signs between its parts.
std::string bare_name(std::string_view name) {
  std::string bare;
  for (const char c : name) {
    if (std::string_view("-_. ").find(c) != std::string_view::npos) continue;
    bare += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return bare;
}

// The preset of every bare name, its own or another that is in use.
std::map<std::string, const Model*> by_bare_name() {
  std::map<std::string, const Model*> found;
  for (const Model& m : presets()) found.emplace(bare_name(m.name), &m);
  for (const auto& [alias, meant] : kAliases) {
    found.insert_or_assign(bare_name(alias), found.at(bare_name(meant)));
  }
  return found;
}

}  // namespace

std::vector<std::string> preset_names() {
  std::vector<std::string> names;
  for (const Model& m : presets()) names.push_back(m.name);
  return names;
}

Result<Model> preset(const std::string& name) {
  static const std::map<std::string, const Model*> known = by_bare_name();
  const auto found = known.find(bare_name(name));
  if (found != known.end()) return *found->second;
  return unusable(fmt::format("there is no preset \"{}\"", name),
                  fmt::format("one of {}", fmt::join(preset_names(), ", ")));
}

}  // namespace tombolo::model
