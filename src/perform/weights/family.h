// Tensor names of the model families that we compute, and how our tensors lie in theirs. Pure.
//
// Names are those of Hugging Face Transformers 4.57: the modules of modeling_llama.py,
// modeling_mistral.py, modeling_qwen2.py, modeling_qwen3.py, modeling_phi3.py, modeling_olmo2.py,
// modeling_smollm3.py, modeling_gemma.py, modeling_gemma2.py, modeling_mixtral.py, modeling_qwen3_moe.py and
// modeling_gpt2.py. Linear layers are [outputs, inputs] there as here, but
// for GPT-2, whose Conv1D has [inputs, outputs]. It holds query, key and value side by side in one
// matrix, and so does Phi-3, which has gate and up in another. Of mixtures each expert's matrices are
// tensors of their own.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "base/fields.h"
#include "spec/model/model.h"

namespace tombolo::weights {

enum class Family {
  kLlama,
  kMistral,
  kQwen2,
  kQwen3,
  kPhi3,
  kOlmo2,
  kSmolLm3,
  kGemma,
  kGemma2,
  kMixtral,
  kQwen3Moe,
  kGpt2
};
constexpr auto enum_names(Family) {
  return std::to_array<EnumName<Family>>({{Family::kLlama, "llama"},
                                          {Family::kMistral, "mistral"},
                                          {Family::kQwen2, "qwen2"},
                                          {Family::kQwen3, "qwen3"},
                                          {Family::kPhi3, "phi3"},
                                          {Family::kOlmo2, "olmo2"},
                                          {Family::kSmolLm3, "smollm3"},
                                          {Family::kGemma, "gemma"},
                                          {Family::kGemma2, "gemma2"},
                                          {Family::kMixtral, "mixtral"},
                                          {Family::kQwen3Moe, "qwen3_moe"},
                                          {Family::kGpt2, "gpt2"}});
}
std::string family_names();  // "llama, mistral, ...", for messages

// Why a model is none of this family, in the words of [model], or "" where it is one.
std::string mismatch(Family family, const model::Model& model);

// The first family of llama, qwen2, qwen3, olmo2, smollm3, gemma, gemma2, gpt2, mistral, mixtral, qwen3_moe
// that the model is one of.
std::optional<Family> family_of(const model::Model& model);

// A tensor in our words: "layers.3.attention.query.weight", [outputs, inputs].
struct Tensor {
  std::string name;
  std::vector<int64_t> shape;

  bool operator==(const Tensor&) const = default;
};

// All of a whole model, in the order of the forward pass; those of a tied embedding once. They are
// the parameters of train::StageModule, whose test compares.
std::vector<Tensor> tensors_of(const model::Model& model);

// Where a tensor of ours lies in one of theirs.
struct Place {
  std::string name;  // theirs: "model.layers.3.self_attn.q_proj.weight"
  bool transposed = false;
  int64_t part = 0;  // of `parts` along the outputs
  int64_t parts = 1;

  bool operator==(const Place&) const = default;
};

// `name`: one of tensors_of(). CHECKs that it is one.
Place place_of(Family family, const std::string& name);

// How many outputs each of the parts has, where there are several.
std::vector<int64_t> outputs_of_parts(const Place& place, const model::Model& model);

// A tensor of theirs, and ours that it is made of, in the order of their parts.
struct TheirTensor {
  std::string name;
  std::vector<int64_t> shape;
  std::vector<Tensor> parts;
  bool transposed = false;
};
std::vector<TheirTensor> their_tensors(Family family, const model::Model& model);

// What stands before the names of the decoder itself ("model."): files that were saved without the
// head leave it out.
std::string decoder_prefix(Family family);

// Whether files may have this tensor, which is no weight: masks, frequencies, the head of tied
// embeddings.
bool is_no_weight(Family family, const model::Model& model, const std::string& name);

}  // namespace tombolo::weights
