// Which tokens go to which experts of a layer, and how their outputs are combined.
//
// A router scores every expert for every token, and a token goes to the `per_token` experts with the highest
// scores. What these make of it is added with the softmax of their scores as weights: Mixtral's rule (Jiang
// et al. 2024, Mixtral of Experts, section 2.1), and Qwen3's with norm_topk_prob. Every token gets its
// experts, however many others chose the same ones (dropless: Gale et al. 2023, MegaBlocks).
#pragma once

#include <cstdint>
#include <vector>

#include "perform/train/torch_compat.h"

namespace tombolo::train {

// Each token has `per_token` copies. In the order of tokens, copy t * per_token + i is the i-th one of token
// t; in the order of experts those of the first expert come first, and of one expert those of earlier tokens.
struct Routing {
  at::Tensor weights;           // [tokens, per_token], float32 at least; with gradients
  at::Tensor by_expert;         // int64: the copy that stands there in the order of experts
  at::Tensor by_token;          // and the other way round
  std::vector<int64_t> counts;  // copies that each expert gets

  int64_t per_token() const { return weights.size(1); }
};

// scores: [tokens, experts], finite. Of equal scores LibTorch's topk chooses.
Routing route(const at::Tensor& scores, int64_t per_token);

// --- with gradients
// x: [tokens, hidden]; returns their copies by expert, [tokens * per_token, hidden].
at::Tensor copies_by_expert(const Routing& routing, const at::Tensor& x);
// What experts made of these: the weighted sum of each token's, [tokens, hidden].
at::Tensor weighted_sum(const Routing& routing, const at::Tensor& by_expert);

}  // namespace tombolo::train
